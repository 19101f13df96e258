package turnstile.spark;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.*;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.ui.*;

public class ReadListener extends SparkListener {
  public static class Marker implements SparkListenerEvent {
    public final CountDownLatch latch = new CountDownLatch(1);
    public boolean logEvent() { return false; }
    public boolean await(long seconds) throws InterruptedException { return latch.await(seconds, TimeUnit.SECONDS); }
  }

  private final String tag;
  private final HashMap roots = new HashMap();
  private final ConcurrentLinkedQueue events = new ConcurrentLinkedQueue();

  public ReadListener(String tag) { this.tag = tag; }
  public Marker marker() { return new Marker(); }
  public Object poll() { return events.poll(); }

  public void onJobStart(SparkListenerJobStart e) {
    if (e.properties() == null) return;
    String tags = e.properties().getProperty("spark.job.tags");
    if (tags == null || !java.util.Arrays.asList(tags.split(",")).contains(tag)) return;
    String execution = e.properties().getProperty("spark.sql.execution.id");
    scala.collection.Iterator stages = e.stageInfos().iterator();
    while (stages.hasNext()) {
      scala.collection.Iterator rdds = ((StageInfo) stages.next()).rddInfos().iterator();
      while (rdds.hasNext())
        if (((org.apache.spark.storage.RDDInfo) rdds.next()).name().equals("FileScanRDD")) {
          events.add(new Object[] {"job", execution == null ? "" : execution, "", null, null});
          return;
        }
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart) {
      SparkListenerSQLExecutionStart e = (SparkListenerSQLExecutionStart) event;
      if (!e.jobTags().contains(tag)) return;
      String root = e.rootExecutionId().isDefined() ? e.rootExecutionId().get().toString() : "" + e.executionId();
      roots.put("" + e.executionId(), root);
      events.add(new Object[] {"start", "" + e.executionId(), root, null, null});
    } else if (event instanceof SparkListenerSQLExecutionEnd) {
      SparkListenerSQLExecutionEnd e = (SparkListenerSQLExecutionEnd) event;
      Object root = roots.remove("" + e.executionId());
      if (root == null) return;
      Object analysed = null, optimised = null;
      boolean matters = true;
      if (e.qe() != null) {
        try {
          analysed = e.qe().analyzed();
        } catch (Throwable notAnalysed) {
          matters = false;  // nothing was executed
        }
        try {
          matters = matters && matters(analysed);
          if (matters && e.qe().tracker().phases().contains("optimization")) optimised = e.qe().optimizedPlan();
        } catch (Throwable notOptimised) { }
      }
      if (!matters) analysed = optimised = "";
      events.add(new Object[] {"end", "" + e.executionId(), root, analysed, optimised});
    } else if (event instanceof Marker) {
      ((Marker) event).latch.countDown();
    }
  }

  private static boolean matters(Object plan) {
    Object[] leaves = nodes(plan);
    for (int i = 0; i < leaves.length; i++) {
      Object leaf = leaves[i];
      if (leaf instanceof LogicalRDD || leaf instanceof LocalRelation || leaf instanceof OneRowRelation || leaf instanceof Range) continue;
      if (leaf instanceof LogicalRelation) {
        Object index = fileIndex(((LogicalRelation) leaf).relation());
        if (index != null && index.getClass().getSimpleName().equals("DeltaLogFileIndex")) continue;
      }
      return true;
    }
    return false;
  }

  public static Object fileIndex(Object relation) {
    return relation instanceof HadoopFsRelation ? ((HadoopFsRelation) relation).location() : null;
  }

  public static Object[] nodes(Object plan) {
    ArrayList all = new ArrayList();
    collect((TreeNode) plan, all);
    ArrayList some = new ArrayList();
    for (int i = 0; i < all.size(); i++) {
      TreeNode node = (TreeNode) all.get(i);
      if (node.children().isEmpty() || node instanceof Command) some.add(node);
    }
    return some.toArray();
  }

  private static void collect(TreeNode node, ArrayList all) {
    all.add(node);
    collectAll(node.children(), all);
    if (node instanceof QueryPlan) collectAll(((QueryPlan) node).subqueries(), all);
    if (node instanceof Command && node.children().isEmpty()) collectAll(node.innerChildren(), all);
  }

  private static void collectAll(Object nodes, ArrayList all) {
    scala.collection.Iterator i = ((scala.collection.Iterable) nodes).iterator();
    while (i.hasNext()) {
      Object node = i.next();
      if (node instanceof QueryPlan) collect((TreeNode) node, all);
    }
  }

  public static String references(Object plan) {
    HashSet ids = new HashSet();
    ArrayList all = new ArrayList();
    collect((TreeNode) plan, all);
    addIds(((QueryPlan) plan).output(), ids);
    for (int i = 0; i < all.size(); i++) addIds(((QueryPlan) all.get(i)).references(), ids);
    StringBuilder text = new StringBuilder();
    java.util.Iterator i = ids.iterator();
    while (i.hasNext()) text.append(i.next()).append(",");
    return text.toString();
  }

  private static void addIds(Object attributes, HashSet ids) {
    scala.collection.Iterator i = ((scala.collection.Iterable) attributes).iterator();
    while (i.hasNext()) ids.add(Long.valueOf(((NamedExpression) i.next()).exprId().id()));
  }

  public static boolean answersFromStatistics(Object analysed, Object optimised) {
    HashSet local = new HashSet(), aggregated = new HashSet();
    ArrayList all = new ArrayList();
    collect((TreeNode) optimised, all);
    for (int i = 0; i < all.size(); i++)
      if (all.get(i) instanceof LocalRelation) addIds(((QueryPlan) all.get(i)).output(), local);
    all.clear();
    collect((TreeNode) analysed, all);
    for (int i = 0; i < all.size(); i++)
      if (all.get(i) instanceof Aggregate) addIds(((QueryPlan) all.get(i)).output(), aggregated);
    local.retainAll(aggregated);
    return !local.isEmpty();
  }

  private static final java.util.List MOMENTS = java.util.Arrays.asList(new String[] {"current_timestamp", "now", "current_date",
    "curdate", "current_time", "localtimestamp", "unix_timestamp"});

  public static String unrepeatable(Object session, Object parsed, Object analysed) {
    java.util.TreeSet found = new java.util.TreeSet();
    ArrayList all = new ArrayList();
    collectProduct(analysed, all);
    ArrayList unresolved = new ArrayList();
    collectProduct(parsed, unresolved);
    // Delta puts the time into a MERGE when it analyses it.
    for (int i = 0; i < unresolved.size(); i++) {
      Object node = unresolved.get(i);
      if (node instanceof MergeIntoTable) {
        try {
          collectProduct(((org.apache.spark.sql.classic.SparkSession) session).sessionState().executePlan(
            ((MergeIntoTable) node).sourceTable(), org.apache.spark.sql.execution.CommandExecutionMode.SKIP()).analyzed(), all);
        } catch (Throwable e) {
          found.add("a source that means something in this statement only");
        }
      }
      Object names = null;
      if (node instanceof org.apache.spark.sql.catalyst.analysis.UnresolvedFunction)
        names = ((org.apache.spark.sql.catalyst.analysis.UnresolvedFunction) node).nameParts();
      if (node instanceof org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute)
        names = ((org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute) node).nameParts();
      if (names != null && parsed.toString().contains("MergeIntoTable")) {
        String name = String.valueOf(((scala.collection.Seq) names).last()).toLowerCase();
        if (MOMENTS.contains(name)) found.add("the present time (" + name + ")");
      }
    }
    for (int i = 0; i < all.size(); i++) {
      Object node = all.get(i);
      if (node instanceof Sample) found.add("TABLESAMPLE");
      if (node instanceof View && ((View) node).isTempView()) found.add("a temporary view");
      if (node instanceof LogicalRDD) found.add("rows of a DataFrame");
      if (node instanceof Expression) {
        Expression e = (Expression) node;
        String name = e.getClass().getSimpleName();
        if (e instanceof CurrentTimestampLike || name.equals("CurrentDate") || name.equals("CurrentTime") || name.equals("LocalTimestamp"))
          found.add("the present time (" + e.prettyName() + ")");
        else if (e instanceof UserDefinedExpression) found.add("a function of the user (" + ((UserDefinedExpression) e).name() + ")");
        else if (name.equals("VariableReference")) found.add("a variable of the session");
        else if (e instanceof Nondeterministic || (!e.deterministic() && !(e instanceof PlanExpression) && isOwn(e)))
          found.add(e.prettyName() + "()");
        else if (e instanceof Cast && ((Cast) e).child() instanceof Literal && isMoment(((Cast) e).child().toString()))
          found.add("the present time ('" + ((Cast) e).child() + "')");
      }
    }
    StringBuilder text = new StringBuilder();
    java.util.Iterator i = found.iterator();
    while (i.hasNext()) text.append(text.length() > 0 ? ", " : "").append(i.next());
    return text.toString();
  }

  private static boolean isMoment(String text) {
    String word = text.trim().toLowerCase();
    return word.equals("now") || word.equals("today") || word.equals("tomorrow") || word.equals("yesterday");
  }

  private static boolean isOwn(Expression e) {
    scala.collection.Iterator i = ((scala.collection.Iterable) e.children()).iterator();
    while (i.hasNext()) if (!((Expression) i.next()).deterministic()) return false;
    return true;
  }

  private static void collectProduct(Object node, ArrayList all) {
    if (node instanceof scala.Some) {
      collectProduct(((scala.Some) node).get(), all);
    } else if (node instanceof scala.collection.immutable.Seq) {
      scala.collection.Iterator i = ((scala.collection.Iterable) node).iterator();
      while (i.hasNext()) collectProduct(i.next(), all);
    } else if (node instanceof TreeNode) {
      all.add(node);
      if (node instanceof scala.Product) {
        scala.collection.Iterator i = ((scala.Product) node).productIterator();
        while (i.hasNext()) collectProduct(i.next(), all);
      } else {
        collectProduct(((TreeNode) node).children(), all);
      }
    }
  }

  public static String settings(Object session) {
    org.apache.spark.sql.internal.SessionState state = ((org.apache.spark.sql.classic.SparkSession) session).sessionState();
    StringBuilder text = new StringBuilder(state.catalogManager().currentCatalog().name());
    text.append(" ").append(java.util.Arrays.toString(state.catalogManager().currentNamespace()));
    String[] keys = new String[] {"session.timeZone", "ansi.enabled", "caseSensitive", "storeAssignmentPolicy"};
    for (int i = 0; i < keys.length; i++) text.append(" ").append(state.conf().getConfString("spark.sql." + keys[i]));
    return text.toString();
  }

  public static String paths(Object files) {
    StringBuilder text = new StringBuilder();
    scala.collection.Iterator i = ((scala.collection.Iterable) files).iterator();
    while (i.hasNext()) {
      if (text.length() > 0) text.append((char) 10);
      text.append(((scala.Product) i.next()).productElement(0));
    }
    return text.toString();
  }

  public static Object[] cachedScans(Object relation) {
    ArrayList scans = new ArrayList();
    physical(((org.apache.spark.sql.execution.columnar.InMemoryRelation) relation).cacheBuilder().cachedPlan(), scans);
    return scans.toArray();
  }

  private static void physical(Object plan, ArrayList scans) {
    if (plan instanceof DataSourceScanExec) scans.add(plan);
    if (plan instanceof org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec)
      physical(((org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec) plan).inputPlan(), scans);
    if (plan instanceof org.apache.spark.sql.execution.adaptive.QueryStageExec)
      physical(((org.apache.spark.sql.execution.adaptive.QueryStageExec) plan).plan(), scans);
    if (plan instanceof org.apache.spark.sql.execution.columnar.InMemoryTableScanExec)
      physical(((org.apache.spark.sql.execution.columnar.InMemoryTableScanExec) plan).relation().cacheBuilder().cachedPlan(), scans);
    physicalAll(((TreeNode) plan).children(), scans);
    physicalAll(((QueryPlan) plan).subqueries(), scans);
  }

  private static void physicalAll(Object plans, ArrayList scans) {
    scala.collection.Iterator i = ((scala.collection.Iterable) plans).iterator();
    while (i.hasNext()) physical(i.next(), scans);
  }
}
