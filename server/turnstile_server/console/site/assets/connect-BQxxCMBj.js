import{r as e}from"./rolldown-runtime-XKyaHtl9.js";import{r as t}from"./index-DpMJSTQE.js";import{Nt as n,St as r,_ as i,_t as a,gt as o,s,wt as c,yt as l}from"./notices-CvF3kqLU.js";import{M as u,T as d}from"./Box-D8fGfleu.js";import{t as f}from"./Tabs-wM4EeP1i.js";var p=e(u(),1);function m(e={timeout:2e3}){let[t,n]=(0,p.useState)(null),[r,i]=(0,p.useState)(!1),[a,o]=(0,p.useState)(null),s=t=>{window.clearTimeout(a),o(window.setTimeout(()=>i(!1),e.timeout)),i(t)};return{copy:e=>{`clipboard`in navigator?navigator.clipboard.writeText(e).then(()=>s(!0)).catch(e=>n(e)):n(Error(`useClipboard: navigator.clipboard is not supported`))},reset:()=>{i(!1),n(null),window.clearTimeout(a)},error:t,copied:r}}var h=d(),g={timeout:1e3};function _(e){let{children:t,timeout:r,value:i,...a}=n(`CopyButton`,g,e),o=m({timeout:r});return(0,h.jsx)(h.Fragment,{children:t({copy:()=>o.copy(i),copied:o.copied,...a})})}_.displayName=`@mantine/core/CopyButton`;function v(e,t){return[{engine:`Spark`,title:`Delta in Spark, with turnstile_spark`,about:`Spark 4.2 and Delta 4.4, unmodified. In a checkout: pip install ./layers ./http_client ./spark_client`,text:`import os
from turnstile_spark import attach, session

spark = session()  # session(s3=True) for tables on S3
lake = attach(spark, name="lake", uri="${e}", catalog="${t}", token=os.environ.get("TURNSTILE_TOKEN"))

spark.sql("CREATE TABLE lake.default.visits (id BIGINT, day DATE) CLUSTER BY (day)")
spark.sql("INSERT INTO lake.default.visits VALUES (1, current_date())")
spark.table("lake.default.visits").show()`},{engine:`spark-defaults`,title:`Delta in Spark, with Unity Catalog's connector`,about:`The catalog in Spark has the name that it has here. io.unitycatalog:unitycatalog-spark has to be on the class path.`,text:`spark.jars.packages                  io.delta:delta-spark_4.2_2.13:4.4.0
spark.sql.extensions                 io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog      org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.sql.catalog.${t}                io.unitycatalog.spark.UCSingleCatalog
spark.sql.catalog.${t}.uri            ${e}
spark.sql.catalog.${t}.token          <token, or none on an open server>
# on S3
spark.hadoop.fs.s3.impl              org.apache.hadoop.fs.s3a.S3AFileSystem`},{engine:`Spark Iceberg`,title:`Iceberg in Spark`,about:`Iceberg's REST catalog; the catalog here is a warehouse of Iceberg's.`,text:`spark.sql.extensions                 org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.lake               org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.lake.type          rest
spark.sql.catalog.lake.uri           ${e}/iceberg
spark.sql.catalog.lake.warehouse     ${t}
spark.sql.catalog.lake.token         <token>`},{engine:`DuckDB`,title:`DuckDB`,about:`Reads and INSERTs of Delta tables. An attachment keeps the snapshot that it first read: attach anew to see other writers.`,text:`INSTALL unity_catalog; INSTALL delta; INSTALL httpfs;
LOAD unity_catalog; LOAD delta; LOAD httpfs;
CREATE SECRET (TYPE unity_catalog, ENDPOINT '${e}', TOKEN '<token, or none on an open server>', AWS_REGION 'us-east-1');
ATTACH '${t}' AS lake (TYPE unity_catalog, DEFAULT_SCHEMA 'default');
SHOW ALL TABLES;`},{engine:`PyIceberg`,title:`PyIceberg`,about:`Writes Iceberg tables.`,text:`import os
from pyiceberg.catalog.rest import RestCatalog

token = os.environ.get("TURNSTILE_TOKEN") or "none"  # an open server takes any token
catalog = RestCatalog("${t}", uri="${e}/iceberg", warehouse="${t}", token=token)
print(catalog.list_namespaces())`},{engine:`Trino`,title:`Trino`,about:`By Trino's documentation of its Iceberg connector; Trino itself is not among the clients that Turnstile's tests run.`,text:`connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=${e}/iceberg
iceberg.rest-catalog.warehouse=${t}
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.token=<token>`},{engine:`HTTP`,title:`Anything that speaks HTTP`,about:`The API is described in openapi/ and docs/api.md.`,text:`export TURNSTILE_URL=${e} TURNSTILE_TOKEN=<token>
curl -sS -H "Authorization: Bearer $TURNSTILE_TOKEN" "$TURNSTILE_URL/v1/catalogs/${t}/namespaces"
turnstile status`}]}function y(){let e=i()||`main`,t=v(location.origin,e);return(0,h.jsxs)(a,{children:[(0,h.jsx)(o,{order:1,children:`Connect`}),(0,h.jsxs)(f,{defaultValue:t[0]?.engine,children:[(0,h.jsx)(f.List,{"aria-label":`Engines`,children:t.map(({engine:e})=>(0,h.jsx)(f.Tab,{value:e,children:e},e))}),t.map(e=>(0,h.jsx)(f.Panel,{value:e.engine,pt:`md`,children:(0,h.jsx)(b,{...e})},e.engine))]})]})}function b({title:e,about:n,text:i}){return(0,h.jsxs)(s,{title:e,actions:(0,h.jsx)(_,{value:i,children:({copied:e,copy:n})=>(0,h.jsx)(t,{size:`xs`,variant:`light`,onClick:n,children:e?`Copied`:`Copy`})}),children:[(0,h.jsx)(r,{children:n}),(0,h.jsx)(c,{children:(0,h.jsx)(l,{block:!0,tabIndex:0,w:`100%`,style:{whiteSpace:`pre`,overflowX:`auto`},children:i})})]})}export{y as default};