package turnstile.spark;

import org.apache.spark.sql.delta.Snapshot;

/** A snapshot that several logs of one table have at the same time: none of them uncaches it. */
public class SharedSnapshot extends Snapshot {
    public SharedSnapshot(Snapshot of) {
        super(of.path(), of.version(), of.logSegment(), of.deltaLog(), of.checksumOpt());
    }

    public void uncache() {
    }

    public void release() {
        super.uncache();
    }
}
