/** This file is apart from the other help texts, which load all settings. */
export const REPLAY_HELP = `Usage: edge replay --bundle FILE [--bundle FILE] [options] LOG...

Decides recorded requests by one or two policy bundles, with a clock that the times in the logs move, and reports who would be
rejected, when and by which rule; with two bundles, also what the second would change. Nothing is sent anywhere.

A LOG is an access log of nginx or Apache (combined format), lines of JSON (as EDGE_DECISION_LOG writes them, or with nginx's
names), or a HAR document; gzip is read too, and - is standard input. Several logs are merged by time.

  --bundle FILE       the bundle to decide by; a second one is compared with the first
  --json              print the report as JSON
  --html FILE         also write the report as a page with charts, for its owner alone to read
  --mode MODE         decision_service (the default), or reverse_proxy, which reads bodies where a log has them

EDGE_TRUSTED_PROXIES, EDGE_STORE_SIZE, EDGE_MAX_BODY_BYTES and the IP files (EDGE_GEOIP_FILE, EDGE_IP_TYPE_FILE,
EDGE_TOR_EXITS_FILE) count as for edge serve.
Exit status: 0 if requests were replayed; 1 and a sentence on standard error otherwise. Lines that cannot be read are counted.
`
