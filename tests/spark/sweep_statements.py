"""The statements of the sweep, by subject: SQL, or a Python expression as :class:`Py`.

Each subject starts in an empty schema that is the current one, so statements need no catalog.
``{path}`` is a folder of the subject's own, ``{here}`` the schema's full name. A Python expression
knows ``spark``, ``DeltaTable``, ``F`` (``pyspark.sql.functions``), ``path``, ``here``, and
``copied(stream, table)``, which appends what a stream has to a table.
"""

from __future__ import annotations


class Py(str):
    """A Python expression. A DataFrame that it returns is read."""

    __slots__ = ()


_T = "CREATE TABLE t AS SELECT id, id * 10 AS v FROM range(5)"
_PARTS = "CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p)"
_CHANGES = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
_MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
_DEFAULTS = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
_WIDENING = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
_SOURCE = "CREATE TABLE s AS SELECT * FROM VALUES (1, 100), (7, 700) AS s(id, v)"
_EVOLVING = "spark.databricks.delta.schema.autoMerge.enabled"

SUBJECTS: dict[str, tuple[str, ...]] = {
    "create": (
        "CREATE TABLE t (id BIGINT)",
        "CREATE TABLE t (id BIGINT)",
        "CREATE TABLE IF NOT EXISTS t (x INT)",
        (
            "CREATE TABLE a (id BIGINT COMMENT 'key', s STRING NOT NULL) USING delta COMMENT 'it' TBLPROPERTIES ('k' = "
            "'v')"
        ),
        "DESCRIBE TABLE a",
        "CREATE TABLE b LIKE a",
        "CREATE TABLE `two words` (id INT)",
        "CREATE TABLE bad (`a b` INT)",
        "CREATE TABLE bad (id INT) TBLPROPERTIES ('delta.noSuchProperty' = '1')",
        "CREATE TABLE bad (id INT) PARTITIONED BY (nosuch)",
        "CREATE TABLE bad (id INT) CLUSTER BY (nosuch)",
        "CREATE TABLE bad (id INT) CLUSTERED BY (id) INTO 4 BUCKETS",
        "CREATE TABLE bad (s STRING COLLATE UNICODE_CI)",
        "CREATE TABLE nosuch.t (id INT)",
        "SHOW TABLES",
        "CREATE TEMPORARY VIEW tv AS SELECT * FROM t",
        "SELECT * FROM tv",
        "CREATE TABLE l (id INT) LOCATION '{path}/l'",
        "CREATE TABLE f (id INT) USING parquet",
        "SHOW CREATE TABLE a",
    ),
    "create as select and replace": (
        _T,
        "CREATE TABLE t AS SELECT 1 AS x",
        "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS x",
        "CREATE TABLE p PARTITIONED BY (v) AS SELECT * FROM t",
        "CREATE TABLE bad AS SELECT 1 AS `a b`",
        "CREATE TABLE bad AS SELECT 1 / (id - 1) AS x FROM range(3)",
        "CREATE OR REPLACE TABLE t AS SELECT 'x' AS s",
        "CREATE OR REPLACE TABLE t (id INT, x DOUBLE) COMMENT 'new'",
        "CREATE OR REPLACE TABLE fresh AS SELECT 1 AS one",
        "REPLACE TABLE t AS SELECT id FROM range(3)",
        "REPLACE TABLE t (id BIGINT, name STRING)",
        "REPLACE TABLE nosuch (id INT)",
        "REPLACE TABLE nosuch AS SELECT 1 AS id",
        "CREATE OR REPLACE TABLE t USING parquet AS SELECT 1 AS id",
        "SHOW TABLES",
    ),
    "drop, rename, truncate": (
        _T,
        "ALTER TABLE t RENAME TO u",
        "SELECT * FROM t",
        "CREATE TABLE t AS SELECT 1 AS other",
        "ALTER TABLE u RENAME TO t",
        "ALTER TABLE u RENAME TO nosuch.u",
        "ALTER TABLE u RENAME TO w",
        "TRUNCATE TABLE w",
        "DROP TABLE w",
        "DROP TABLE w",
        "DROP TABLE IF EXISTS w",
        "UNDROP TABLE w",
        "CREATE TABLE w (again INT)",
        "ALTER TABLE w SET LOCATION '{path}/elsewhere'",
        "MSCK REPAIR TABLE w",
        "REFRESH TABLE w",
        "CACHE TABLE w",
        "UNCACHE TABLE w",
        "DROP VIEW w",
        "SHOW TABLES",
        "DROP TABLE t PURGE",
    ),
    "schemas": (
        "CREATE SCHEMA {here}_s COMMENT 'more' WITH DBPROPERTIES ('k' = 'v')",
        "CREATE SCHEMA {here}_s",
        "ALTER SCHEMA {here}_s SET DBPROPERTIES ('k' = 'w', 'l' = 'x')",
        "ALTER SCHEMA {here}_s UNSET DBPROPERTIES ('l')",
        "COMMENT ON SCHEMA {here}_s IS 'less'",
        "CREATE TABLE {here}_s.t (id INT)",
        "DROP SCHEMA {here}_s",
        "DROP SCHEMA {here}_s CASCADE",
        "DROP SCHEMA {here}_s",
        "CREATE SCHEMA {here}_l LOCATION '{path}/l'",
        "CREATE SCHEMA {here}_m",
        "ALTER SCHEMA {here}_m SET LOCATION '{path}/m'",
        "SHOW TABLES IN {here}_nosuch",
        "USE {here}_nosuch",
        "CREATE VIEW vw AS SELECT 1 AS one",
        "SELECT * FROM vw",
        "SHOW VIEWS",
        "DROP VIEW vw",
        "SHOW FUNCTIONS LIKE 'nosuch'",
    ),
    "columns": (
        "CREATE TABLE t (id INT NOT NULL, s STRING, st STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, l ARRAY<INT>)",
        "INSERT INTO t VALUES (1, 'a', named_struct('a', 1, 'b', 'x'), map('k', 1), array(1))",
        "ALTER TABLE t ADD COLUMNS (x DOUBLE COMMENT 'added', y DATE FIRST)",
        "ALTER TABLE t ADD COLUMN st.c BIGINT AFTER a",
        "ALTER TABLE t ADD COLUMN l.element.z INT",
        "ALTER TABLE t ADD COLUMN x INT",
        "ALTER TABLE t ADD COLUMN n INT NOT NULL",
        "ALTER TABLE t ADD COLUMN `a b` INT",
        "ALTER TABLE t ALTER COLUMN s COMMENT 'text'",
        "ALTER TABLE t ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE t RENAME COLUMN x TO z",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t REPLACE COLUMNS (id INT)",
        "INSERT INTO t (id, x) VALUES (NULL, 1.0)",
        "DESCRIBE TABLE t",
    ),
    "column mapping": (
        _T,
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE t RENAME COLUMN v TO value",
        "ALTER TABLE t ADD COLUMN `a b,c` INT",
        "INSERT INTO t VALUES (9, 90, 900)",
        "ALTER TABLE t DROP COLUMN value",
        "ALTER TABLE t RENAME COLUMN id TO `a b,c`",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
        f"CREATE TABLE m (id INT, st STRUCT<a: INT, b: INT>, `x y` STRING) {_MAPPED}",
        "INSERT INTO m VALUES (1, named_struct('a', 1, 'b', 2), 'x')",
        "ALTER TABLE m RENAME COLUMN st.a TO c",
        "ALTER TABLE m DROP COLUMN st.b",
        "SELECT id, st.c, `x y` FROM m",
    ),
    "properties and comments": (
        _T,
        "ALTER TABLE t SET TBLPROPERTIES ('k' = 'v', 'a.b' = 'c d', 'delta.appendOnly' = 'true')",
        "SHOW TBLPROPERTIES t ('k')",
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t UNSET TBLPROPERTIES ('delta.appendOnly', 'k')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('nosuch')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.noSuchProperty' = '1')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = 'soon')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
        "CREATE TABLE u (id INT)",
        "ALTER TABLE u SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
        "ALTER TABLE u DROP FEATURE deletionVectors",
        "DROP TABLE u",
        "ALTER TABLE t SET TBLPROPERTIES ('comment' = 'as a property')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.feature.clustering' = 'supported')",
        "ALTER TABLE t DROP FEATURE clustering",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "COMMENT ON TABLE t IS 'a comment'",
        "COMMENT ON TABLE t IS NULL",
        Py("spark.sql('DESCRIBE DETAIL t').select('format', 'description', 'partitionColumns', 'numFiles')"),
        Py("spark.sql('DESCRIBE HISTORY t').select('version', 'operation')"),
    ),
    "constraints": (
        _T,
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (id >= 0)",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (id > -9)",
        "INSERT INTO t VALUES (-1, 0)",
        "UPDATE t SET id = -5 WHERE id = 1",
        "ALTER TABLE t DROP CONSTRAINT positive",
        "ALTER TABLE t DROP CONSTRAINT positive",
        "INSERT INTO t VALUES (-1, 0)",
        "CREATE TABLE n (id INT NOT NULL)",
        "INSERT INTO n VALUES (NULL)",
        "ALTER TABLE n ADD CONSTRAINT pk PRIMARY KEY (id)",
    ),
    "generated, identity and default columns": (
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, d DATE, y INT GENERATED ALWAYS AS (year(d)))",
        "INSERT INTO t (d) VALUES (DATE'2026-05-05'), (DATE'2027-05-05')",
        "INSERT INTO t (d, y) VALUES (DATE'2026-05-05', 1999)",
        "UPDATE t SET d = DATE'2030-01-01' WHERE y = 2026",
        "ALTER TABLE t ALTER COLUMN id SYNC IDENTITY",
        "CREATE TABLE i (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 10 INCREMENT BY 5), v INT)",
        "INSERT INTO i (v) SELECT 1",
        "ALTER TABLE i ALTER COLUMN id SYNC IDENTITY",
        "INSERT INTO i (v) SELECT 3",
        "SELECT * FROM i",
        "CREATE TABLE bad (id INT GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE bad (a INT, b INT GENERATED ALWAYS AS (rand()))",
        f"CREATE TABLE d (id INT, x INT DEFAULT 3, s STRING DEFAULT 'none') {_DEFAULTS}",
        "INSERT INTO d (id) VALUES (1)",
        "INSERT INTO d VALUES (2, DEFAULT, DEFAULT)",
        "ALTER TABLE d ALTER COLUMN x SET DEFAULT 4",
        "ALTER TABLE d ADD COLUMN z INT DEFAULT 5",
        "UPDATE d SET x = DEFAULT WHERE id = 1",
        "SELECT * FROM d",
        "CREATE TABLE bad (id INT, x INT DEFAULT 3)",
    ),
    "partitions and clusters": (
        _PARTS,
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "INSERT INTO t PARTITION (p = 'c') VALUES (4)",
        "INSERT OVERWRITE t PARTITION (p = 'c') VALUES (5)",
        "SHOW PARTITIONS t",
        "ALTER TABLE t ADD PARTITION (p = 'z')",
        "ALTER TABLE t CLUSTER BY (id)",
        "CREATE TABLE bad (id INT, d TIMESTAMP) PARTITIONED BY (years(d))",
        "CREATE TABLE c (id INT, v INT, st STRUCT<a: INT>) CLUSTER BY (id, st.a)",
        "INSERT INTO c VALUES (1, 2, named_struct('a', 3))",
        "ALTER TABLE c CLUSTER BY (v)",
        "ALTER TABLE c CLUSTER BY (nosuch)",
        "ALTER TABLE c CLUSTER BY NONE",
        Py("spark.sql('DESCRIBE DETAIL c').select('clusteringColumns')"),
    ),
    "insert": (
        _T,
        "INSERT INTO t VALUES (5, 50), (6, NULL)",
        "INSERT INTO t (v, id) VALUES (70, 7)",
        "INSERT INTO t BY NAME SELECT 80 AS v, 8 AS id",
        "INSERT INTO t BY NAME SELECT 80 AS nosuch, 8 AS id",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES ('text', 1)",
        "INSERT INTO t SELECT id, 1 / (id - 1) FROM range(3)",
        "INSERT INTO t REPLACE WHERE id >= 8 SELECT 8, 88",
        "INSERT INTO t REPLACE WHERE id >= 8 SELECT 1, 11",
        "INSERT OVERWRITE t SELECT id, id FROM range(2)",
        "FROM (SELECT 5 AS a, 6 AS b) INSERT INTO t SELECT a, b INSERT INTO t SELECT b, a",
        "INSERT INTO nosuch VALUES (1)",
    ),
    "writers": (
        Py("spark.range(3).write.saveAsTable('t')"),
        Py("spark.range(3).write.saveAsTable('t')"),
        Py("spark.range(3, 5).write.mode('append').saveAsTable('t')"),
        Py("spark.range(2).withColumn('v', F.lit(1)).write.mode('append').saveAsTable('t')"),
        Py(
            "spark.range(2).withColumn('v', F.lit(1)).write.mode('append').option('mergeSchema', "
            "'true').saveAsTable('t')"
        ),
        Py(
            "spark.range(7, 9).withColumn('v', F.lit(7)).write.mode('overwrite').option('replaceWhere', 'id > "
            "6').saveAsTable('t')"
        ),
        Py(
            "spark.range(1).withColumn('v', F.lit(7)).write.mode('overwrite').option('replaceWhere', 'id > "
            "6').saveAsTable('t')"
        ),
        Py("spark.range(2).write.mode('overwrite').saveAsTable('t')"),
        Py("spark.range(2).write.mode('overwrite').option('overwriteSchema', 'true').saveAsTable('t')"),
        Py("spark.range(2).write.partitionBy('id').mode('append').saveAsTable('t')"),
        Py("spark.range(9, 10).writeTo('t').append()"),
        Py("spark.range(8, 9).writeTo('t').overwrite(F.col('id') == 9)"),
        Py("spark.range(3).writeTo('t').createOrReplace()"),
        Py(
            "spark.range(4).withColumn('p', F.col('id') % 2).writeTo('p').partitionedBy('p').tableProperty('k', "
            "'v').create()"
        ),
        Py("spark.range(8, 10).withColumn('p', F.lit(1).cast('bigint')).writeTo('p').overwritePartitions()"),
        Py(
            "spark.range(2).withColumn('p', "
            "F.lit(0).cast('bigint')).write.mode('overwrite').option('partitionOverwriteMode', "
            "'dynamic').insertInto('p')"
        ),
        Py("spark.range(2).write.option('txnAppId', 'job').option('txnVersion', '1').mode('append').saveAsTable('t')"),
        Py("spark.range(2).write.option('txnAppId', 'job').option('txnVersion', '1').mode('append').saveAsTable('t')"),
        Py("spark.catalog.tableExists('t')"),
        Py("sorted(t.name for t in spark.catalog.listTables())"),
        Py("spark.catalog.createTable('made', schema=spark.range(1).schema)"),
        Py("spark.catalog.refreshTable('t')"),
        Py("spark.range(2).write.format('parquet').saveAsTable('f')"),
        Py("spark.range(2).write.option('path', path + '/ext').saveAsTable('e')"),
    ),
    "update and delete": (
        _T,
        "UPDATE t SET v = v + 1 WHERE id > 2",
        "UPDATE t SET v = NULL",
        "UPDATE t SET v = 'text'",
        "UPDATE t AS x SET x.v = (SELECT max(id) FROM range(3)) WHERE x.id IN (SELECT id FROM range(2))",
        "DELETE FROM t WHERE id = 4",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM range(3) r WHERE r.id = t.id)",
        "DELETE FROM t",
        "CREATE TABLE st (id INT, s STRUCT<a: INT, b: INT>)",
        "INSERT INTO st VALUES (1, named_struct('a', 1, 'b', 2))",
        "UPDATE st SET s.a = 9",
        "SELECT * FROM st",
    ),
    "merge": (
        _T,
        _SOURCE,
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v > 500 THEN DELETE WHEN MATCHED THEN UPDATE SET v "
            "= t.v + 1"
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 3 THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -1"
        ),
        "MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 1) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = 0",
        "MERGE INTO t USING s ON false WHEN NOT MATCHED THEN INSERT (id, nosuch) VALUES (1, 2)",
        "MERGE INTO t USING (SELECT 9 AS id, 90 AS v, 'x' AS added) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        (
            "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 9 AS id, 90 AS v, 'x' AS added) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        f"SET {_EVOLVING} = true",
        "MERGE INTO t USING (SELECT 1 AS id, 'y' AS more) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        f"RESET {_EVOLVING}",
    ),
    "reads": (
        f"CREATE TABLE t (id BIGINT, v BIGINT) {_CHANGES}",
        "INSERT INTO t SELECT id, id FROM range(3)",
        "UPDATE t SET v = 10 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT * FROM t VERSION AS OF 99",
        "SELECT * FROM t TIMESTAMP AS OF '1999-01-01'",
        "INSERT INTO t VERSION AS OF 1 VALUES (1, 1)",
        "SELECT id, v, _change_type, _commit_version FROM table_changes('t', 0)",
        "SELECT * FROM table_changes('t', 99)",
        Py(
            "spark.read.option('readChangeFeed', 'true').option('startingVersion', "
            "2).table('t').drop('_commit_timestamp')"
        ),
        Py("spark.read.option('versionAsOf', 1).table('t')"),
        Py("spark.table('t').select('id', '_metadata.file_name').select('id')"),
        "SELECT _metadata.row_id FROM t",
        "CREATE TABLE off (id INT)",
        "SELECT * FROM table_changes('off', 0)",
        "DESCRIBE EXTENDED nosuch",
        "DESCRIBE DETAIL nosuch",
        "DESCRIBE HISTORY nosuch",
        Py("spark.sql('DESCRIBE HISTORY t').select('version', 'operation', 'readVersion', 'isBlindAppend')"),
        Py("spark.sql('DESCRIBE EXTENDED t').where(\"col_name in ('id', 'Name', 'Type', 'Provider')\")"),
    ),
    "paths": (
        _T,
        "CREATE TABLE delta.`{path}/a` (id BIGINT) USING delta",
        "CREATE TABLE delta.`{path}/b` USING delta AS SELECT id FROM range(3)",
        "INSERT INTO delta.`{path}/b` VALUES (3)",
        "UPDATE delta.`{path}/b` SET id = 30 WHERE id = 3",
        (
            "MERGE INTO delta.`{path}/b` d USING t ON d.id = t.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
            "INSERT (id) VALUES (t.id)"
        ),
        "SELECT * FROM delta.`{path}/b`",
        "SELECT * FROM delta.`{path}/b` VERSION AS OF 0",
        "ALTER TABLE delta.`{path}/b` ADD COLUMN x INT",
        "ALTER TABLE delta.`{path}/b` SET TBLPROPERTIES ('k' = 'v')",
        "DESCRIBE TABLE delta.`{path}/b`",
        "SELECT count(*) FROM delta.`{path}/nosuch`",
        Py("spark.sql('OPTIMIZE delta.`' + path + '/b`').select('metrics.numFilesAdded', 'metrics.numFilesRemoved')"),
        "RESTORE TABLE delta.`{path}/b` TO VERSION AS OF 0",
        Py("spark.range(2).write.parquet(path + '/parquet')"),
        "SELECT * FROM parquet.`{path}/parquet`",
        "CONVERT TO DELTA parquet.`{path}/parquet`",
        "SELECT * FROM delta.`{path}/parquet`",
        Py("spark.range(2).write.format('delta').save(path + '/saved')"),
        Py("spark.read.format('delta').load(path + '/saved')"),
        Py("DeltaTable.forPath(spark, path + '/saved').toDF()"),
        Py("DeltaTable.isDeltaTable(spark, path + '/saved')"),
        "SHOW TABLES",
        "CREATE TABLE copied SHALLOW CLONE delta.`{path}/saved`",
        "CREATE TABLE delta.`{path}/copy` SHALLOW CLONE t",
        "SELECT * FROM `a/b`",
        "SELECT * FROM nosuch.`a/b`",
    ),
    "maintenance": (
        _T,
        "INSERT INTO t VALUES (5, 50)",
        "RESTORE TABLE t TO VERSION AS OF 99",
        "RESTORE TABLE t TO VERSION AS OF 0",
        "OPTIMIZE t",
        "OPTIMIZE t ZORDER BY (id)",
        "OPTIMIZE t WHERE id > 1",
        "VACUUM t",
        "VACUUM t DRY RUN",
        "REORG TABLE t APPLY (PURGE)",
        "GENERATE symlink_format_manifest FOR TABLE t",
        "CONVERT TO DELTA t",
        "CREATE TABLE c SHALLOW CLONE t",
        "CREATE OR REPLACE TABLE c SHALLOW CLONE t VERSION AS OF 0",
        "VACUUM nosuch",
    ),
    "types": (
        "CREATE TABLE t (v VARIANT)",
        """INSERT INTO t SELECT parse_json('{{"a": [1, "x"]}}')""",
        "SELECT variant_get(v, '$.a[0]', 'int') AS a FROM t",
        (
            "CREATE TABLE n (id INT, ts TIMESTAMP_NTZ, tz TIMESTAMP, d DECIMAL(38, 18), b BINARY, c CHAR(3), vc "
            "VARCHAR(3))"
        ),
        (
            "INSERT INTO n VALUES (1, TIMESTAMP_NTZ'2026-01-01 00:00:00', TIMESTAMP'2026-01-01 00:00:00Z', 1.5, "
            "X'00FF', 'ab', 'abc')"
        ),
        "DESCRIBE TABLE n",
        f"CREATE TABLE w (id TINYINT, f FLOAT, d DATE) {_WIDENING}",
        "INSERT INTO w VALUES (1, 1.5, DATE'2026-01-01')",
        "ALTER TABLE w ALTER COLUMN id TYPE INT",
        "ALTER TABLE w ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE w ALTER COLUMN id TYPE SMALLINT",
        "INSERT INTO w VALUES (100000, 2.5, NULL)",
        "SELECT * FROM w",
        "CREATE TABLE deep (id INT, a ARRAY<STRUCT<x: MAP<STRING, ARRAY<INT>>>>)",
        "INSERT INTO deep VALUES (1, array(named_struct('x', map('k', array(1, 2)))))",
        "SELECT a[0].x['k'][1] AS two FROM deep",
        "INSERT INTO deep BY NAME SELECT 2 AS id, array(named_struct('y', 1)) AS a",
        (
            "CREATE TABLE big (c1 INT) TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1', "
            "'delta.enableIcebergCompatV2' = 'true')"
        ),
    ),
    "streams": (
        _T,
        Py("copied(spark.readStream.table('t'), 'copy')"),
        "INSERT INTO t VALUES (5, 50)",
        Py("copied(spark.readStream.table('t'), 'copy')"),
        "SELECT * FROM copy",
        Py("copied(spark.readStream.option('startingVersion', 1).table('t'), 'later')"),
        "DELETE FROM t WHERE id = 0",
        Py("copied(spark.readStream.table('t'), 'copy')"),
        Py("copied(spark.readStream.option('skipChangeCommits', 'true').table('t'), 'copy')"),
        Py("copied(spark.readStream.table('t').selectExpr('id AS other'), 'later')"),
        f"CREATE TABLE feed (id INT) {_CHANGES}",
        "INSERT INTO feed VALUES (1), (2)",
        "DELETE FROM feed WHERE id = 1",
        Py(
            "copied(spark.readStream.option('readChangeFeed', 'true').option('startingVersion', 0).table('feed')"
            ".select('id', '_change_type'), 'changed')"
        ),
        "SELECT * FROM changed",
        Py("spark.readStream.table('nosuch')"),
    ),
    "DeltaTable": (
        f"CREATE TABLE t {_CHANGES} AS SELECT id, id * 10 AS v FROM range(5)",
        Py("DeltaTable.forName(spark, here + '.t').toDF()"),
        Py("DeltaTable.forName(spark, 't').toDF()"),
        Py("DeltaTable.forName(spark, 'nosuch')"),
        Py("DeltaTable.forName(spark, here + '.t').update('id = 1', {'v': 'v + 1'})"),
        Py("DeltaTable.forName(spark, here + '.t').delete(F.col('id') == 0)"),
        Py(
            "DeltaTable.forName(spark, here + '.t').alias('t').merge(spark.range(4, 7).alias('s'), 't.id = "
            "s.id').whenMatchedDelete().whenNotMatchedInsert(values={'id': 's.id', 'v': '0'}).execute()"
        ),
        Py(
            "DeltaTable.forName(spark, here + '.t').alias('t').merge(spark.range(7, 8).withColumn('w', "
            "F.lit(1)).alias('s'), 't.id = s.id').withSchemaEvolution().whenNotMatchedInsertAll().execute()"
        ),
        Py("DeltaTable.forName(spark, here + '.t').history().select('version', 'operation')"),
        Py("DeltaTable.forName(spark, here + '.t').restoreToVersion(1)"),
        Py("DeltaTable.forName(spark, here + '.t').optimize().executeCompaction()"),
        Py("DeltaTable.forName(spark, here + '.t').vacuum(0)"),
        Py("DeltaTable.forName(spark, here + '.t').addFeatureSupport('clustering')"),
        Py("DeltaTable.forName(spark, here + '.t').upgradeTableProtocol(3, 7)"),
        Py("DeltaTable.forName(spark, here + '.t').clone(path + '/clone', isShallow=True)"),
        Py(
            "DeltaTable.create(spark).tableName('made').addColumn('id', 'BIGINT', nullable=False).addColumn('d', "
            "'DATE').addColumn('y', 'INT', "
            "generatedAlwaysAs='year(d)').partitionedBy('y').comment('made').property('k', 'v').execute().toDF()"
        ),
        Py("DeltaTable.create(spark).tableName('made').addColumn('id', 'BIGINT').execute()"),
        Py("DeltaTable.createOrReplace(spark).tableName('made').addColumn('z', 'INT').clusterBy('z').execute().toDF()"),
        Py(
            "DeltaTable.create(spark).tableName('placed').location(path + '/placed').addColumn('z', "
            "'INT').execute().toDF()"
        ),
        Py("spark.range(2).write.parquet(path + '/parquet')"),
        Py("DeltaTable.convertToDelta(spark, 'parquet.`' + path + '/parquet`').toDF()"),
    ),
}
