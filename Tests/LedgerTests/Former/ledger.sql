PRAGMA application_id = 1129531214;
BEGIN TRANSACTION;
CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
INSERT INTO "grdb_migrations" VALUES('0001 verdicts');
INSERT INTO "grdb_migrations" VALUES('0002 pending receipts');
INSERT INTO "grdb_migrations" VALUES('0003 updates, grants, rechecks');
INSERT INTO "grdb_migrations" VALUES('0004 runs');
INSERT INTO "grdb_migrations" VALUES('0005 notes');
INSERT INTO "grdb_migrations" VALUES('0006 notifications');
INSERT INTO "grdb_migrations" VALUES('0007 fewer trees');
INSERT INTO "grdb_migrations" VALUES('0008 pending total');
INSERT INTO "grdb_migrations" VALUES('0009 refused by whom');
CREATE TABLE heartbeat (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  beats INTEGER NOT NULL
) STRICT;
INSERT INTO "heartbeat" VALUES(1,0);
CREATE TABLE history (
  sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
  version INTEGER NOT NULL CHECK (version >= 1),
  recorded_at INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  changed INTEGER NOT NULL CHECK (changed IN (0, 1)),
  entitlement TEXT NOT NULL CHECK (json_valid(entitlement)),
  receipt_sha256 BLOB NOT NULL CHECK (length(receipt_sha256) = 32),
  evidence_at INTEGER, note_sequence INTEGER REFERENCES note (sequence),
  UNIQUE (user_id, version)
) STRICT;
INSERT INTO "history" VALUES(1,'anna',1,1750000000000,'r-anna-0-0.0',1,'{"accessUntil":1750001000000,"environment":"production","evidenceTime":1750000000000,"expiresAt":1750001000000,"explanation":{"decidedBy":"90","judgedAt":1750000000000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000000000,NULL);
INSERT INTO "history" VALUES(2,'anna',2,1750000010000,'r-anna-0-10.0',1,'{"accessUntil":1750001010000,"environment":"production","evidenceTime":1750000010000,"expiresAt":1750001010000,"explanation":{"decidedBy":"90","judgedAt":1750000010000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000010000,NULL);
INSERT INTO "history" VALUES(3,'anna',3,1750000020000,'r-anna-0-20.0',1,'{"accessUntil":1750001020000,"environment":"production","evidenceTime":1750000020000,"expiresAt":1750001020000,"explanation":{"decidedBy":"90","judgedAt":1750000020000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000020000,NULL);
INSERT INTO "history" VALUES(4,'anna',4,1750000030000,'r-anna-0-30.0',1,'{"accessUntil":1750001030000,"environment":"production","evidenceTime":1750000030000,"expiresAt":1750001030000,"explanation":{"decidedBy":"90","judgedAt":1750000030000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000030000,NULL);
INSERT INTO "history" VALUES(5,'ben',1,1750000001000,'r-ben-1-1.0',1,'{"accessUntil":1750001001000,"environment":"production","evidenceTime":1750000001000,"expiresAt":1750001001000,"explanation":{"decidedBy":"91","judgedAt":1750000001000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'FEA5396A7F4325C408B1B65B33A4D77BA5486CEBA941804D8889A8546CFBAB96',1750000001000,NULL);
INSERT INTO "history" VALUES(6,'ben',2,1750000011000,'r-ben-1-11.0',1,'{"accessUntil":1750001011000,"environment":"production","evidenceTime":1750000011000,"expiresAt":1750001011000,"explanation":{"decidedBy":"91","judgedAt":1750000011000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'FEA5396A7F4325C408B1B65B33A4D77BA5486CEBA941804D8889A8546CFBAB96',1750000011000,NULL);
INSERT INTO "history" VALUES(7,'ben',3,1750000021000,'r-ben-1-21.0',1,'{"accessUntil":1750001021000,"environment":"production","evidenceTime":1750000021000,"expiresAt":1750001021000,"explanation":{"decidedBy":"91","judgedAt":1750000021000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'FEA5396A7F4325C408B1B65B33A4D77BA5486CEBA941804D8889A8546CFBAB96',1750000021000,NULL);
INSERT INTO "history" VALUES(8,'ben',4,1750000031000,'r-ben-1-31.0',1,'{"accessUntil":1750001031000,"environment":"production","evidenceTime":1750000031000,"expiresAt":1750001031000,"explanation":{"decidedBy":"91","judgedAt":1750000031000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'FEA5396A7F4325C408B1B65B33A4D77BA5486CEBA941804D8889A8546CFBAB96',1750000031000,NULL);
INSERT INTO "history" VALUES(9,'cleo',1,1750000002000,'r-cleo-2-2.0',1,'{"accessUntil":1750001002000,"environment":"production","evidenceTime":1750000002000,"expiresAt":1750001002000,"explanation":{"decidedBy":"92","judgedAt":1750000002000,"line":3,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewal_off","source":"verify_receipt","status":"cancelled","tier":"pro","willRenew":false}',X'774AD7AB1A3D41B114B5F4A34E2D8FC19C2EE8D83DFC133F1D80068ED205597F',1750000002000,NULL);
INSERT INTO "history" VALUES(10,'cleo',2,1750000012000,'r-cleo-2-12.0',1,'{"accessUntil":1750001012000,"environment":"production","evidenceTime":1750000012000,"expiresAt":1750001012000,"explanation":{"decidedBy":"92","judgedAt":1750000012000,"line":3,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewal_off","source":"verify_receipt","status":"cancelled","tier":"pro","willRenew":false}',X'774AD7AB1A3D41B114B5F4A34E2D8FC19C2EE8D83DFC133F1D80068ED205597F',1750000012000,NULL);
INSERT INTO "history" VALUES(11,'cleo',3,1750000022000,'r-cleo-2-22.0',1,'{"accessUntil":1750001022000,"environment":"production","evidenceTime":1750000022000,"expiresAt":1750001022000,"explanation":{"decidedBy":"92","judgedAt":1750000022000,"line":3,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewal_off","source":"verify_receipt","status":"cancelled","tier":"pro","willRenew":false}',X'774AD7AB1A3D41B114B5F4A34E2D8FC19C2EE8D83DFC133F1D80068ED205597F',1750000022000,NULL);
INSERT INTO "history" VALUES(12,'cleo',4,1750000032000,'r-cleo-2-32.0',1,'{"accessUntil":1750001032000,"environment":"production","evidenceTime":1750000032000,"expiresAt":1750001032000,"explanation":{"decidedBy":"92","judgedAt":1750000032000,"line":3,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewal_off","source":"verify_receipt","status":"cancelled","tier":"pro","willRenew":false}',X'774AD7AB1A3D41B114B5F4A34E2D8FC19C2EE8D83DFC133F1D80068ED205597F',1750000032000,NULL);
INSERT INTO "history" VALUES(13,'dora',1,1750000003000,'r-dora-3-3.0',1,'{"accessUntil":1750001003000,"environment":"production","evidenceTime":1750000003000,"expiresAt":1750001003000,"explanation":{"decidedBy":"93","judgedAt":1750000003000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'DE84F16F82E8CF8C184F7883460865481BA6F1FA5B48C3AE4E75B9E9786A6B03',1750000003000,NULL);
INSERT INTO "history" VALUES(14,'dora',2,1750000013000,'r-dora-3-13.0',1,'{"accessUntil":1750001013000,"environment":"production","evidenceTime":1750000013000,"expiresAt":1750001013000,"explanation":{"decidedBy":"93","judgedAt":1750000013000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'DE84F16F82E8CF8C184F7883460865481BA6F1FA5B48C3AE4E75B9E9786A6B03',1750000013000,NULL);
INSERT INTO "history" VALUES(15,'dora',3,1750000023000,'r-dora-3-23.0',1,'{"accessUntil":1750001023000,"environment":"production","evidenceTime":1750000023000,"expiresAt":1750001023000,"explanation":{"decidedBy":"93","judgedAt":1750000023000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'DE84F16F82E8CF8C184F7883460865481BA6F1FA5B48C3AE4E75B9E9786A6B03',1750000023000,NULL);
INSERT INTO "history" VALUES(16,'dora',4,1750000033000,'r-dora-3-33.0',1,'{"accessUntil":1750001033000,"environment":"production","evidenceTime":1750000033000,"expiresAt":1750001033000,"explanation":{"decidedBy":"93","judgedAt":1750000033000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'DE84F16F82E8CF8C184F7883460865481BA6F1FA5B48C3AE4E75B9E9786A6B03',1750000033000,NULL);
INSERT INTO "history" VALUES(17,'emil',1,1750000004000,'r-emil-4-4.0',1,'{"accessUntil":1750001004000,"environment":"production","evidenceTime":1750000004000,"expiresAt":1750001004000,"explanation":{"decidedBy":"94","judgedAt":1750000004000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'9BF922D8EE39A15DF6C2B0081AA0F508601A13287FC31A902AA34ECCBF835DEF',1750000004000,NULL);
INSERT INTO "history" VALUES(18,'emil',2,1750000014000,'r-emil-4-14.0',1,'{"accessUntil":1750001014000,"environment":"production","evidenceTime":1750000014000,"expiresAt":1750001014000,"explanation":{"decidedBy":"94","judgedAt":1750000014000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'9BF922D8EE39A15DF6C2B0081AA0F508601A13287FC31A902AA34ECCBF835DEF',1750000014000,NULL);
INSERT INTO "history" VALUES(19,'emil',3,1750000024000,'r-emil-4-24.0',1,'{"accessUntil":1750001024000,"environment":"production","evidenceTime":1750000024000,"expiresAt":1750001024000,"explanation":{"decidedBy":"94","judgedAt":1750000024000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'9BF922D8EE39A15DF6C2B0081AA0F508601A13287FC31A902AA34ECCBF835DEF',1750000024000,NULL);
INSERT INTO "history" VALUES(20,'emil',4,1750000034000,'r-emil-4-34.0',1,'{"accessUntil":1750001034000,"environment":"production","evidenceTime":1750000034000,"expiresAt":1750001034000,"explanation":{"decidedBy":"94","judgedAt":1750000034000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'9BF922D8EE39A15DF6C2B0081AA0F508601A13287FC31A902AA34ECCBF835DEF',1750000034000,NULL);
INSERT INTO "history" VALUES(21,'ben',5,1750000100000,'r-ben-0-100.0',1,'{"accessUntil":1750001100000,"environment":"production","evidenceTime":1750000100000,"expiresAt":1750001100000,"explanation":{"decidedBy":"90","judgedAt":1750000100000,"line":2,"passedOver":[{"cause":"other_subscription","productID":"com.example.app.pro.monthly","transactionID":"91"}],"passedOverCount":1},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000100000,NULL);
INSERT INTO "history" VALUES(22,'anna',5,1750000100000,'r-ben-0-100.0',1,'{"explanation":{"judgedAt":1750000100000,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"reason":"no_purchases","status":"active","tier":"free"}',X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B',1750000100000,NULL);
INSERT INTO "history" VALUES(23,'gina',1,1750000050000,'r-gina-5-50.0',1,'{"accessUntil":1750001050000,"environment":"production","evidenceTime":1750000050000,"expiresAt":1750001050000,"explanation":{"decidedBy":"95","judgedAt":1750000050000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"5","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'ABD6D7D260020C696196F15714B17685C884932E1C7F300D5E75260AD18FEDE0',1750000050000,NULL);
INSERT INTO "history" VALUES(24,'hugo',1,1750000060000,'r-hugo-6-60.0',1,'{"environment":"production","evidenceTime":1750000060000,"explanation":{"decidedBy":"96","judgedAt":1750000060000,"line":1,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"6","ownership":"purchased","productID":"com.example.app.forever","reason":"lifetime","source":"verify_receipt","status":"active","tier":"premium","willRenew":true}',X'136B6D38D875B03D73C075C513C7C7DB54864399B2EB9211625F3B2964A9BBDA',1750000060000,NULL);
INSERT INTO "history" VALUES(25,'gina',2,1750000104000,'t',1,'{"environment":"production","evidenceTime":1750000060000,"explanation":{"decidedBy":"96","judgedAt":1750000104000,"line":1,"passedOver":[{"cause":"other_subscription","productID":"com.example.app.pro.monthly","transactionID":"95"}],"passedOverCount":1},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"6","ownership":"purchased","productID":"com.example.app.forever","reason":"lifetime","source":"verify_receipt","status":"active","tier":"premium","willRenew":true}',X'136B6D38D875B03D73C075C513C7C7DB54864399B2EB9211625F3B2964A9BBDA',1750000060000,3);
INSERT INTO "history" VALUES(26,'hugo',2,1750000104000,'t',1,'{"explanation":{"judgedAt":1750000104000,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"reason":"no_purchases","status":"active","tier":"free"}',X'136B6D38D875B03D73C075C513C7C7DB54864399B2EB9211625F3B2964A9BBDA',1750000060000,3);
INSERT INTO "history" VALUES(27,'ABCDEF01-2345-4678-9ABC-DEF012345678',1,1750000070000,'r-first-7-70.0',1,'{"accessUntil":1750001070000,"environment":"production","evidenceTime":1750000070000,"expiresAt":1750001070000,"explanation":{"decidedBy":"97","judgedAt":1750000070000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"7","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'B9E8BE61A195415D90F6453066A979EA13B30499B622F707EE5DBBE1ED58294A',1750000070000,NULL);
INSERT INTO "history" VALUES(28,'abcdef01-2345-4678-9abc-def012345678',1,1750000071000,'r-second-8-71.0',1,'{"accessUntil":1750001071000,"environment":"production","evidenceTime":1750000071000,"expiresAt":1750001071000,"explanation":{"decidedBy":"98","judgedAt":1750000071000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"8","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'EB75BD2E1C056B3FFC82BAB6E9D09051E2547F2046BAA7B62056E0C0A07FA1DD',1750000071000,NULL);
INSERT INTO "history" VALUES(29,'abcdef01-2345-4678-9abc-def012345678',2,1750000080000,'r-second-8-80.0',1,'{"accessUntil":1750001080000,"environment":"production","evidenceTime":1750000080000,"expiresAt":1750001080000,"explanation":{"decidedBy":"98","judgedAt":1750000080000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"8","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'EB75BD2E1C056B3FFC82BAB6E9D09051E2547F2046BAA7B62056E0C0A07FA1DD',1750000080000,NULL);
INSERT INTO "history" VALUES(30,'ABCDEF01-2345-4678-9ABC-DEF012345679',1,1750000075000,'r-ABCDEF01-2345-4678-9ABC-DEF012345679-9-75.0',1,'{"accessUntil":1750001075000,"environment":"production","evidenceTime":1750000075000,"expiresAt":1750001075000,"explanation":{"decidedBy":"99","judgedAt":1750000075000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"9","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'E6FDB34DC858FDC85C667742163C42A257B8EAEFAB62C6C7138D2DA4AA4344D2',1750000075000,NULL);
INSERT INTO "history" VALUES(31,'6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11',1,1750005000000,'n1',1,'{"accessUntil":1750001000000,"environment":"production","evidenceTime":1750000009000,"expiresAt":1750001000000,"explanation":{"decidedBy":"t1","judgedAt":1750000009000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"60","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"notification","status":"active","tier":"pro"}',X'CB5E61154F27D638402BB24F8367F22B01722E22D08225DB7AF30BDBFFCA80DC',1750000009000,NULL);
INSERT INTO "history" VALUES(32,'ben',6,1750005000000,'n3',0,'{"accessUntil":1750001100000,"environment":"production","evidenceTime":1750000100000,"expiresAt":1750001100000,"explanation":{"decidedBy":"90","judgedAt":1750000200000,"line":2,"passedOver":[{"cause":"other_subscription","productID":"com.example.app.pro.monthly","transactionID":"91"},{"cause":"cancelled","productID":"com.example.app.pro.monthly","transactionID":"t1"}],"passedOverCount":2},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',X'CB5E61154F27D638402BB24F8367F22B01722E22D08225DB7AF30BDBFFCA80DC',1750000200000,NULL);
INSERT INTO "history" VALUES(33,'fred',1,1750000000000,'request-waits',1,'{"accessUntil":1750000100000,"environment":"production","evidenceTime":1750000000000,"expiresAt":1750010000000,"explanation":{"decidedBy":"t-50-10000.0","judgedAt":1750000000000,"line":2,"passedOver":[],"passedOverCount":0,"policy":{"key":"policy.provisional","value":"1d"}},"isProvisional":true,"isStale":false,"isTrial":false,"originalTransactionID":"50","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"signature","status":"active","tier":"pro"}',X'7C4A345722B40ACBDC121843D43B674E9F7C50201F26B4B915931B4F2A73D3D0',1750000000000,NULL);
CREATE TABLE memo (
  name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
  text TEXT NOT NULL
) STRICT;
INSERT INTO "memo" VALUES('name','text');
CREATE TABLE note (
  sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user_id TEXT CHECK (user_id <> ''),
  author TEXT NOT NULL CHECK (author <> ''),
  text TEXT NOT NULL CHECK (text <> ''),
  recorded_at INTEGER NOT NULL,
  request_id TEXT NOT NULL
) STRICT;
INSERT INTO "note" VALUES(1,'anna','desk','asked by "mail"',1750000101000,'q');
INSERT INTO "note" VALUES(2,'noted','desk','nobody we know',1750000103000,'q2');
INSERT INTO "note" VALUES(3,NULL,'desk','sold the phone',1750000104000,'t');
CREATE TABLE notification (
  uuid TEXT NOT NULL PRIMARY KEY CHECK (uuid <> ''),
  type TEXT,
  subtype TEXT,
  environment TEXT CHECK (environment IN ('production', 'sandbox')),
  bundle_id TEXT,
  original_transaction_id TEXT,
  signed_at INTEGER,
  received_at INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('recorded', 'unclaimed', 'noted')),
  user_id TEXT CHECK ((outcome = 'recorded') = (user_id IS NOT NULL)),
  payload TEXT
) STRICT;
INSERT INTO "notification" VALUES('n1','DID_RENEW','BILLING_RECOVERY','production','com.example.app','60',1750000009000,1750005000000,'recorded','6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11','signed');
INSERT INTO "notification" VALUES('n2','DID_RENEW','BILLING_RECOVERY','production','com.example.app','61',1750000009000,1750005000000,'unclaimed',NULL,'signed');
INSERT INTO "notification" VALUES('n3','DID_RENEW','BILLING_RECOVERY','production','com.example.app','1',1750000200000,1750005000000,'recorded','ben','signed');
CREATE TABLE ownership_change (
  sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  environment TEXT NOT NULL,
  original_transaction_id TEXT NOT NULL,
  from_user_id TEXT REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
  to_user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
  recorded_at INTEGER NOT NULL,
  request_id TEXT NOT NULL, note_sequence INTEGER REFERENCES note (sequence),
  CHECK (from_user_id IS NOT to_user_id),
  FOREIGN KEY (environment, original_transaction_id)
    REFERENCES subscription (environment, original_transaction_id) ON UPDATE RESTRICT ON DELETE RESTRICT
) STRICT;
INSERT INTO "ownership_change" VALUES(1,'production','0',NULL,'anna',1750000000000,'r-anna-0-0.0',NULL);
INSERT INTO "ownership_change" VALUES(2,'production','1',NULL,'ben',1750000001000,'r-ben-1-1.0',NULL);
INSERT INTO "ownership_change" VALUES(3,'production','2',NULL,'cleo',1750000002000,'r-cleo-2-2.0',NULL);
INSERT INTO "ownership_change" VALUES(4,'production','3',NULL,'dora',1750000003000,'r-dora-3-3.0',NULL);
INSERT INTO "ownership_change" VALUES(5,'production','4',NULL,'emil',1750000004000,'r-emil-4-4.0',NULL);
INSERT INTO "ownership_change" VALUES(6,'production','0','anna','ben',1750000100000,'r-ben-0-100.0',NULL);
INSERT INTO "ownership_change" VALUES(7,'production','5',NULL,'gina',1750000050000,'r-gina-5-50.0',NULL);
INSERT INTO "ownership_change" VALUES(8,'production','6',NULL,'hugo',1750000060000,'r-hugo-6-60.0',NULL);
INSERT INTO "ownership_change" VALUES(9,'production','6','hugo','gina',1750000104000,'t',3);
INSERT INTO "ownership_change" VALUES(10,'production','7',NULL,'ABCDEF01-2345-4678-9ABC-DEF012345678',1750000070000,'r-first-7-70.0',NULL);
INSERT INTO "ownership_change" VALUES(11,'production','8',NULL,'abcdef01-2345-4678-9abc-def012345678',1750000071000,'r-second-8-71.0',NULL);
INSERT INTO "ownership_change" VALUES(12,'production','9',NULL,'ABCDEF01-2345-4678-9ABC-DEF012345679',1750000075000,'r-ABCDEF01-2345-4678-9ABC-DEF012345679-9-75.0',NULL);
INSERT INTO "ownership_change" VALUES(13,'production','60',NULL,'6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11',1750005000000,'n1',NULL);
CREATE TABLE pending_receipt (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user_id TEXT NOT NULL CHECK (user_id <> ''),
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
  base64 TEXT NOT NULL CHECK (base64 <> ''),
  request_id TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  due_at INTEGER NOT NULL,
  UNIQUE (user_id, sha256)
) STRICT;
INSERT INTO "pending_receipt" VALUES(1,'fred',X'7C4A345722B40ACBDC121843D43B674E9F7C50201F26B4B915931B4F2A73D3D0','waits','request-waits',1750000000000,0,1750000000000);
CREATE TABLE pending_total (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;
INSERT INTO "pending_total" VALUES(1,5);
CREATE TABLE profile (
  user_id TEXT NOT NULL PRIMARY KEY CHECK (user_id <> ''),
  version INTEGER NOT NULL CHECK (version >= 1),
  tier TEXT NOT NULL CHECK (tier <> ''),
  status TEXT NOT NULL CHECK (status IN ('active', 'cancelled', 'grace_period', 'expired')),
  access_until INTEGER,
  expires_at INTEGER,
  entitlement TEXT NOT NULL CHECK (json_valid(entitlement)),
  recorded_at INTEGER NOT NULL
) STRICT;
INSERT INTO "profile" VALUES('anna',5,'free','active',NULL,NULL,'{"explanation":{"judgedAt":1750000100000,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"reason":"no_purchases","status":"active","tier":"free"}',1750000100000);
INSERT INTO "profile" VALUES('ben',6,'pro','active',1750001100000,1750001100000,'{"accessUntil":1750001100000,"environment":"production","evidenceTime":1750000100000,"expiresAt":1750001100000,"explanation":{"decidedBy":"90","judgedAt":1750000200000,"line":2,"passedOver":[{"cause":"other_subscription","productID":"com.example.app.pro.monthly","transactionID":"91"},{"cause":"cancelled","productID":"com.example.app.pro.monthly","transactionID":"t1"}],"passedOverCount":2},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750005000000);
INSERT INTO "profile" VALUES('cleo',4,'pro','cancelled',1750001032000,1750001032000,'{"accessUntil":1750001032000,"environment":"production","evidenceTime":1750000032000,"expiresAt":1750001032000,"explanation":{"decidedBy":"92","judgedAt":1750000032000,"line":3,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewal_off","source":"verify_receipt","status":"cancelled","tier":"pro","willRenew":false}',1750000032000);
INSERT INTO "profile" VALUES('dora',4,'pro','active',1750001033000,1750001033000,'{"accessUntil":1750001033000,"environment":"production","evidenceTime":1750000033000,"expiresAt":1750001033000,"explanation":{"decidedBy":"93","judgedAt":1750000033000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750000033000);
INSERT INTO "profile" VALUES('emil',4,'pro','active',1750001034000,1750001034000,'{"accessUntil":1750001034000,"environment":"production","evidenceTime":1750000034000,"expiresAt":1750001034000,"explanation":{"decidedBy":"94","judgedAt":1750000034000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750000034000);
INSERT INTO "profile" VALUES('gina',2,'premium','active',NULL,NULL,'{"environment":"production","evidenceTime":1750000060000,"explanation":{"decidedBy":"96","judgedAt":1750000104000,"line":1,"passedOver":[{"cause":"other_subscription","productID":"com.example.app.pro.monthly","transactionID":"95"}],"passedOverCount":1},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"6","ownership":"purchased","productID":"com.example.app.forever","reason":"lifetime","source":"verify_receipt","status":"active","tier":"premium","willRenew":true}',1750000104000);
INSERT INTO "profile" VALUES('hugo',2,'free','active',NULL,NULL,'{"explanation":{"judgedAt":1750000104000,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"reason":"no_purchases","status":"active","tier":"free"}',1750000104000);
INSERT INTO "profile" VALUES('ABCDEF01-2345-4678-9ABC-DEF012345678',1,'pro','active',1750001070000,1750001070000,'{"accessUntil":1750001070000,"environment":"production","evidenceTime":1750000070000,"expiresAt":1750001070000,"explanation":{"decidedBy":"97","judgedAt":1750000070000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"7","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750000070000);
INSERT INTO "profile" VALUES('abcdef01-2345-4678-9abc-def012345678',2,'pro','active',1750001080000,1750001080000,'{"accessUntil":1750001080000,"environment":"production","evidenceTime":1750000080000,"expiresAt":1750001080000,"explanation":{"decidedBy":"98","judgedAt":1750000080000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"8","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750000080000);
INSERT INTO "profile" VALUES('ABCDEF01-2345-4678-9ABC-DEF012345679',1,'pro','active',1750001075000,1750001075000,'{"accessUntil":1750001075000,"environment":"production","evidenceTime":1750000075000,"expiresAt":1750001075000,"explanation":{"decidedBy":"99","judgedAt":1750000075000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"9","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"verify_receipt","status":"active","tier":"pro","willRenew":true}',1750000075000);
INSERT INTO "profile" VALUES('6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11',1,'pro','active',1750001000000,1750001000000,'{"accessUntil":1750001000000,"environment":"production","evidenceTime":1750000009000,"expiresAt":1750001000000,"explanation":{"decidedBy":"t1","judgedAt":1750000009000,"line":2,"passedOver":[],"passedOverCount":0},"isProvisional":false,"isStale":false,"isTrial":false,"originalTransactionID":"60","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"notification","status":"active","tier":"pro"}',1750005000000);
INSERT INTO "profile" VALUES('fred',1,'pro','active',1750000100000,1750010000000,'{"accessUntil":1750000100000,"environment":"production","evidenceTime":1750000000000,"expiresAt":1750010000000,"explanation":{"decidedBy":"t-50-10000.0","judgedAt":1750000000000,"line":2,"passedOver":[],"passedOverCount":0,"policy":{"key":"policy.provisional","value":"1d"}},"isProvisional":true,"isStale":false,"isTrial":false,"originalTransactionID":"50","ownership":"purchased","productID":"com.example.app.pro.monthly","reason":"renewing","source":"signature","status":"active","tier":"pro"}',1750000000000);
CREATE TABLE profile_update (
  user_id TEXT NOT NULL PRIMARY KEY REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE CASCADE,
  version INTEGER NOT NULL CHECK (version >= 1),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'confirming', 'written', 'missing')),
  is_doubtful INTEGER NOT NULL CHECK (is_doubtful IN (0, 1)),
  waiting_since INTEGER NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  due_at INTEGER NOT NULL,
  problem TEXT,
  problem_at INTEGER
) STRICT;
INSERT INTO "profile_update" VALUES('anna',1750000100000,'waiting',0,1750000000000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('ben',1750000200000,'written',0,1750000001000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('cleo',1750000032000,'missing',0,1750000002000,1,1750000007000,NULL,NULL);
INSERT INTO "profile_update" VALUES('dora',1750000033000,'confirming',0,1750000003000,0,1750000005000,NULL,NULL);
INSERT INTO "profile_update" VALUES('emil',1750000034000,'waiting',1,1750000004000,1,1750000009000,'timeout',1750000009000);
INSERT INTO "profile_update" VALUES('gina',1750000060000,'waiting',0,1750000050000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('hugo',1750000060001,'waiting',0,1750000060000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('ABCDEF01-2345-4678-9ABC-DEF012345678',1750000070000,'waiting',0,1750000070000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('abcdef01-2345-4678-9abc-def012345678',1750000080000,'waiting',0,1750000071000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('ABCDEF01-2345-4678-9ABC-DEF012345679',1750000075000,'waiting',0,1750000075000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11',1750000009000,'waiting',0,1750005000000,0,0,NULL,NULL);
INSERT INTO "profile_update" VALUES('fred',1750000000000,'waiting',0,1750000000000,0,0,NULL,NULL);
CREATE TABLE provisional_grant (
  environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
  original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
  user_id TEXT NOT NULL CHECK (user_id <> ''),
  pending_receipt_id INTEGER NOT NULL REFERENCES pending_receipt (id) ON UPDATE RESTRICT ON DELETE CASCADE,
  source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
  evidence_at INTEGER NOT NULL,
  judged_at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  is_over INTEGER NOT NULL CHECK (is_over IN (0, 1)),
  evidence TEXT NOT NULL CHECK (json_valid(evidence)),
  PRIMARY KEY (environment, original_transaction_id)
) STRICT;
INSERT INTO "provisional_grant" VALUES('production','50','fred',1,'signature',1750000000000,1750000000000,1750000100000,0,'{"purchases":[{"expiresDate":1750010000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"50","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"transactionID":"t-50-10000.0"}],"renewals":[]}');
CREATE TABLE receipt (
  id INTEGER NOT NULL PRIMARY KEY,
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
  base64 TEXT NOT NULL CHECK (base64 <> ''),
  environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
  bundle_id TEXT NOT NULL CHECK (bundle_id <> ''),
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  UNIQUE (sha256, environment, bundle_id)
) STRICT;
INSERT INTO "receipt" VALUES(1,X'F39F0ABF1B8B3BF488787CA4E20FCAA09E1B3C43FABA53B3CC8058052CCDF21B','receipt-0','production','com.example.app',1750000000000,1750000100000);
INSERT INTO "receipt" VALUES(2,X'FEA5396A7F4325C408B1B65B33A4D77BA5486CEBA941804D8889A8546CFBAB96','receipt-1','production','com.example.app',1750000001000,1750000031000);
INSERT INTO "receipt" VALUES(3,X'774AD7AB1A3D41B114B5F4A34E2D8FC19C2EE8D83DFC133F1D80068ED205597F','receipt-2','production','com.example.app',1750000002000,1750000032000);
INSERT INTO "receipt" VALUES(4,X'DE84F16F82E8CF8C184F7883460865481BA6F1FA5B48C3AE4E75B9E9786A6B03','receipt-3','production','com.example.app',1750000003000,1750000033000);
INSERT INTO "receipt" VALUES(5,X'9BF922D8EE39A15DF6C2B0081AA0F508601A13287FC31A902AA34ECCBF835DEF','receipt-4','production','com.example.app',1750000004000,1750000034000);
INSERT INTO "receipt" VALUES(6,X'ABD6D7D260020C696196F15714B17685C884932E1C7F300D5E75260AD18FEDE0','cmVjZWlwdA==','production','com.example.app',1750000050000,1750000050000);
INSERT INTO "receipt" VALUES(7,X'136B6D38D875B03D73C075C513C7C7DB54864399B2EB9211625F3B2964A9BBDA','eyJhbGciOiJFUzI1NiJ9.e30.c2ln','production','com.example.app',1750000060000,1750000060000);
INSERT INTO "receipt" VALUES(8,X'B9E8BE61A195415D90F6453066A979EA13B30499B622F707EE5DBBE1ED58294A','receipt-7','production','com.example.app',1750000070000,1750000070000);
INSERT INTO "receipt" VALUES(9,X'EB75BD2E1C056B3FFC82BAB6E9D09051E2547F2046BAA7B62056E0C0A07FA1DD','receipt-8','production','com.example.app',1750000071000,1750000080000);
INSERT INTO "receipt" VALUES(10,X'E6FDB34DC858FDC85C667742163C42A257B8EAEFAB62C6C7138D2DA4AA4344D2','receipt-9','production','com.example.app',1750000075000,1750000075000);
INSERT INTO "receipt" VALUES(11,X'CB5E61154F27D638402BB24F8367F22B01722E22D08225DB7AF30BDBFFCA80DC','jws','production','com.example.app',1750005000000,1750005000000);
CREATE TABLE "recheck" (
  environment TEXT NOT NULL,
  original_transaction_id TEXT NOT NULL,
  scheduled_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  PRIMARY KEY (environment, original_transaction_id),
  FOREIGN KEY (environment, original_transaction_id)
    REFERENCES subscription (environment, original_transaction_id) ON UPDATE RESTRICT ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO "recheck" VALUES('production','0',1750001100000,1750001115802,0);
INSERT INTO "recheck" VALUES('production','1',1750001031000,1750001035013,0);
INSERT INTO "recheck" VALUES('production','2',1750001032000,1750001071380,0);
INSERT INTO "recheck" VALUES('production','3',1750000000000,1750000121000,1);
INSERT INTO "recheck" VALUES('production','4',1750001034000,1750001036958,0);
INSERT INTO "recheck" VALUES('production','5',1750001050000,1750001101169,0);
INSERT INTO "recheck" VALUES('production','60',1750001000000,1750001032232,0);
INSERT INTO "recheck" VALUES('production','7',1750001070000,1750001084747,0);
INSERT INTO "recheck" VALUES('production','8',1750001080000,1750001130114,0);
INSERT INTO "recheck" VALUES('production','9',1750001075000,1750001113325,0);
CREATE TABLE refused_notification (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
  problem TEXT NOT NULL CHECK (problem <> ''),
  payload TEXT NOT NULL,
  received_at INTEGER NOT NULL
, is_signed INTEGER NOT NULL DEFAULT 0 CHECK (is_signed IN (0, 1))) STRICT;
INSERT INTO "refused_notification" VALUES(1,X'2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881','signature','x',1750000001000,0);
CREATE TABLE run (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  idempotency_key TEXT UNIQUE,
  expiring_within INTEGER NOT NULL CHECK (expiring_within >= 0),
  horizon INTEGER NOT NULL,
  item_limit INTEGER NOT NULL CHECK (item_limit >= 1),
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'stopped')),
  stop_reason TEXT CHECK ((state = 'stopped') = (stop_reason IS NOT NULL)),
  started_at INTEGER NOT NULL,
  finished_at INTEGER CHECK ((state = 'running') = (finished_at IS NULL)),
  due INTEGER NOT NULL,
  done INTEGER NOT NULL CHECK (done >= 0),
  changed INTEGER NOT NULL CHECK (changed BETWEEN 0 AND done),
  failed INTEGER NOT NULL CHECK (failed >= 0),
  held_back INTEGER NOT NULL CHECK (held_back >= 0),
  CHECK (done + failed + held_back <= due)
) STRICT;
INSERT INTO "run" VALUES(1,'k',1020000,1750001020000,10,'running',NULL,1750000000000,NULL,1,0,0,0,0);
CREATE TABLE run_item (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL REFERENCES run (id) ON UPDATE RESTRICT ON DELETE CASCADE,
  environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
  original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  due_at INTEGER NOT NULL,
  UNIQUE (run_id, environment, original_transaction_id)
) STRICT;
INSERT INTO "run_item" VALUES(1,1,'production','60',0,0);
CREATE TABLE subscription (
  environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
  original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
  user_id TEXT NOT NULL REFERENCES profile (user_id) ON UPDATE RESTRICT ON DELETE RESTRICT,
  receipt_id INTEGER NOT NULL REFERENCES receipt (id) ON UPDATE RESTRICT ON DELETE RESTRICT,
  source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
  evidence_at INTEGER NOT NULL,
  judged_at INTEGER NOT NULL,
  account_gone INTEGER NOT NULL CHECK (account_gone IN (0, 1)),
  evidence TEXT NOT NULL CHECK (json_valid(evidence)), claim TEXT NOT NULL DEFAULT 'proof' CHECK (claim IN ('proof', 'account_token')),
  PRIMARY KEY (environment, original_transaction_id)
) STRICT;
INSERT INTO "subscription" VALUES('production','0','ben',1,'verify_receipt',1750000100000,1750000100000,0,'{"purchases":[{"expiresDate":1750001100000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"0","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"90","webOrderLineItemID":"80"}],"renewals":[{"autoRenews":true,"originalTransactionID":"0"}]}','proof');
INSERT INTO "subscription" VALUES('production','1','ben',2,'notification',1750000200000,1750000200000,0,'{"parts":{"answeredAt":1750000031000,"since":1750000031000},"purchases":[{"expiresDate":1750001031000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","toldAt":1750000031000,"transactionID":"91","webOrderLineItemID":"81"},{"cancellationDate":1750000150000,"expiresDate":1750001000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"1","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"toldAt":1750000200000,"transactionID":"t1"}],"renewals":[{"autoRenews":true,"originalTransactionID":"1","toldAt":1750000031000}]}','proof');
INSERT INTO "subscription" VALUES('production','2','cleo',3,'verify_receipt',1750000032000,1750000032000,0,'{"purchases":[{"expiresDate":1750001032000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"2","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"92","webOrderLineItemID":"82"}],"renewals":[{"autoRenews":false,"originalTransactionID":"2"}]}','proof');
INSERT INTO "subscription" VALUES('production','3','dora',4,'verify_receipt',1750000033000,1750000033000,0,'{"purchases":[{"expiresDate":1750001033000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"3","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"93","webOrderLineItemID":"83"}],"renewals":[{"autoRenews":true,"originalTransactionID":"3"}]}','proof');
INSERT INTO "subscription" VALUES('production','4','emil',5,'verify_receipt',1750000034000,1750000034000,0,'{"purchases":[{"expiresDate":1750001034000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"4","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"94","webOrderLineItemID":"84"}],"renewals":[{"autoRenews":true,"originalTransactionID":"4"}]}','proof');
INSERT INTO "subscription" VALUES('production','5','gina',6,'verify_receipt',1750000050000,1750000050000,0,'{"purchases":[{"expiresDate":1750001050000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"5","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"95","webOrderLineItemID":"85"}],"renewals":[{"autoRenews":true,"originalTransactionID":"5"}]}','proof');
INSERT INTO "subscription" VALUES('production','6','gina',7,'verify_receipt',1750000060000,1750000060000,0,'{"purchases":[{"expiresDate":1750001060000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"6","ownership":"purchased","productID":"com.example.app.forever","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"96","webOrderLineItemID":"86"}],"renewals":[{"autoRenews":true,"originalTransactionID":"6"}]}','proof');
INSERT INTO "subscription" VALUES('production','7','ABCDEF01-2345-4678-9ABC-DEF012345678',8,'verify_receipt',1750000070000,1750000070000,0,'{"purchases":[{"expiresDate":1750001070000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"7","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"97","webOrderLineItemID":"87"}],"renewals":[{"autoRenews":true,"originalTransactionID":"7"}]}','proof');
INSERT INTO "subscription" VALUES('production','8','abcdef01-2345-4678-9abc-def012345678',9,'verify_receipt',1750000080000,1750000080000,0,'{"purchases":[{"expiresDate":1750001080000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"8","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"98","webOrderLineItemID":"88"}],"renewals":[{"autoRenews":true,"originalTransactionID":"8"}]}','proof');
INSERT INTO "subscription" VALUES('production','9','ABCDEF01-2345-4678-9ABC-DEF012345679',10,'verify_receipt',1750000075000,1750000075000,0,'{"purchases":[{"expiresDate":1750001075000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"9","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"subscriptionGroupID":"group","transactionID":"99","webOrderLineItemID":"89"}],"renewals":[{"autoRenews":true,"originalTransactionID":"9"}]}','proof');
INSERT INTO "subscription" VALUES('production','60','6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11',11,'notification',1750000009000,1750000009000,0,'{"parts":{},"purchases":[{"appAccountToken":"6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11","expiresDate":1750001000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"60","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"toldAt":1750000009000,"transactionID":"t1"}],"renewals":[]}','account_token');
CREATE TABLE unclaimed_evidence (
  environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
  original_transaction_id TEXT NOT NULL CHECK (original_transaction_id <> ''),
  source TEXT NOT NULL CHECK (source IN ('verify_receipt', 'server_api', 'signature', 'notification')),
  evidence_at INTEGER NOT NULL,
  judged_at INTEGER NOT NULL,
  evidence TEXT NOT NULL CHECK (json_valid(evidence)),
  account_token TEXT CHECK (account_token = lower(account_token)),
  bundle_id TEXT CHECK (bundle_id <> ''),
  proof TEXT CHECK (proof <> ''),
  proof_at INTEGER CHECK ((proof IS NULL) = (proof_at IS NULL)),
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  CHECK (proof IS NULL OR bundle_id IS NOT NULL),
  PRIMARY KEY (environment, original_transaction_id)
) STRICT;
INSERT INTO "unclaimed_evidence" VALUES('production','61','notification',1750000009000,1750000009000,'{"parts":{},"purchases":[{"expiresDate":1750001000000,"isIntroductoryOffer":false,"isTrial":false,"isUpgraded":false,"originalTransactionID":"61","ownership":"purchased","productID":"com.example.app.pro.monthly","purchaseDate":1749999900000,"toldAt":1750000009000,"transactionID":"t1"}],"renewals":[]}',NULL,'com.example.app','jws',1750000009000,1750005000000,1750005000000);
CREATE INDEX subscription_user_id ON subscription (user_id);
CREATE INDEX subscription_receipt_id ON subscription (receipt_id);
CREATE INDEX ownership_change_key ON ownership_change (environment, original_transaction_id, sequence);
CREATE TRIGGER history_no_delete BEFORE DELETE ON history
  BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER history_no_replace BEFORE INSERT ON history
  WHEN EXISTS (SELECT 1 FROM history WHERE sequence = NEW.sequence)
    OR EXISTS (SELECT 1 FROM history WHERE user_id = NEW.user_id AND version = NEW.version)
  BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER ownership_change_no_delete BEFORE DELETE ON ownership_change
  BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
CREATE TRIGGER ownership_change_no_replace BEFORE INSERT ON ownership_change
  WHEN EXISTS (SELECT 1 FROM ownership_change WHERE sequence = NEW.sequence)
  BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
CREATE INDEX pending_receipt_due_at ON pending_receipt (due_at, id);
CREATE INDEX history_user_id_receipt ON history (user_id, receipt_sha256);
CREATE INDEX provisional_grant_user_id ON provisional_grant (user_id);
CREATE INDEX provisional_grant_pending_receipt_id ON provisional_grant (pending_receipt_id);
CREATE INDEX provisional_grant_until ON provisional_grant (until) WHERE is_over = 0;
CREATE UNIQUE INDEX run_running ON run (state) WHERE state = 'running';
CREATE INDEX run_item_due_at ON run_item (run_id, due_at, id);
CREATE INDEX note_user_id ON note (user_id, sequence);
CREATE TRIGGER note_no_update BEFORE UPDATE ON note
  BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
CREATE TRIGGER note_no_delete BEFORE DELETE ON note
  BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
CREATE TRIGGER note_no_replace BEFORE INSERT ON note
  WHEN EXISTS (SELECT 1 FROM note WHERE sequence = NEW.sequence)
  BEGIN SELECT RAISE(ABORT, 'note is append-only'); END;
CREATE INDEX ownership_change_to_user_id ON ownership_change (to_user_id, sequence);
CREATE INDEX notification_key ON notification (environment, original_transaction_id, received_at);
CREATE INDEX notification_received_at ON notification (received_at);
CREATE INDEX refused_notification_received_at ON refused_notification (received_at);
CREATE INDEX unclaimed_evidence_account_token ON unclaimed_evidence (account_token)
  WHERE account_token IS NOT NULL;
CREATE INDEX ownership_change_from_user_id ON ownership_change (from_user_id, sequence)
  WHERE from_user_id IS NOT NULL;
CREATE INDEX profile_update_due_at ON profile_update (due_at, waiting_since, user_id, state, problem_at)
  WHERE state <> 'written';
CREATE INDEX recheck_due_at ON recheck (due_at, scheduled_at);
CREATE INDEX recheck_scheduled_at ON recheck (scheduled_at, environment, original_transaction_id);
CREATE TRIGGER pending_receipt_added AFTER INSERT ON pending_receipt
  BEGIN UPDATE pending_total SET bytes = bytes + length(NEW.base64) WHERE id = 1; END;
CREATE TRIGGER pending_receipt_removed AFTER DELETE ON pending_receipt
  BEGIN UPDATE pending_total SET bytes = bytes - length(OLD.base64) WHERE id = 1; END;
CREATE INDEX refused_notification_is_signed ON refused_notification (is_signed, id);
CREATE TRIGGER history_no_update BEFORE UPDATE ON history
  BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER ownership_change_no_update BEFORE UPDATE ON ownership_change
  BEGIN SELECT RAISE(ABORT, 'ownership_change is append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('history',33);
INSERT INTO "sqlite_sequence" VALUES('ownership_change',13);
INSERT INTO "sqlite_sequence" VALUES('note',3);
INSERT INTO "sqlite_sequence" VALUES('refused_notification',1);
INSERT INTO "sqlite_sequence" VALUES('pending_receipt',1);
INSERT INTO "sqlite_sequence" VALUES('run',1);
INSERT INTO "sqlite_sequence" VALUES('run_item',1);
COMMIT;
