/** These help texts are apart from the others, which load all settings, so that these commands start quickly. */

const SERVER = `EDGE_ADMIN_URL is the URL of the admin port, such as https://edge.example/ops; without it the
command asks this machine on EDGE_ADMIN_PORT, at EDGE_ADMIN_HOST or EDGE_HOST if set.
EDGE_ADMIN_TOKEN is the token that edge serve was started with; there is no option for it, because
other users of the machine can read command lines.
Exit status: 0, or 1 and a sentence on standard error.
`

const ACTOR_LINE = '--actor NAME        who does it, for the log [EDGE_ACTOR, else USER]'
const JSON_LINE = '--json              print the response of the API as it is'

export const STATUS_HELP = `Usage: edge status [--json]

Shows the state of an instance: version, workers, bundle, counters, Redis, state file, backends, and
what is wrong now.

  ${JSON_LINE}

${SERVER}`

export const BACKENDS_HELP = `Usage: edge backends [--json]
       edge backends retry NAME --reason TEXT [--json]

Shows where EDGE_MODE=reverse_proxy forwards requests to: the backends of the bundle, whether each
is healthy or cools and why, its connections and the requests that wait for one, and the routes.
Retry has a backend that cools tried by the next request instead of at its deadline. Until it has
answered properly, one request at a time tries it. Both are about the instance that is asked.

  --reason TEXT       why, for the log
  ${ACTOR_LINE}
  ${JSON_LINE}

${SERVER}`

export const TOP_HELP = `Usage: edge top [--since TIME] [--json] [POLICY [RULE]]

Shows the callers that were rejected most lately and in the last hour, with the time of their first
and last reject within the hour, and those that are nearest to their limit now, for all policies,
one policy, or one rule. Policies in shadow mode are marked: they reject nobody. On a terminal the
table is refreshed every two seconds; q quits.

  --since TIME        count rejects since then, at most an hour ago: a time ago (30m, 1h) or a date
                      (2026-01-31T12:00:00Z) [five to ten minutes ago]
  ${JSON_LINE}

${SERVER}`

export const EXPLAIN_HELP = `Usage: edge explain [options] URI

Says what would happen to a request and why: which policies cover it, which rules apply, what their
counters have left, and the headers it would get. Nothing is taken. With a URL (https://host/path)
in place of the path, its host counts as --host.

  -X METHOD           the method [GET; with -d POST]
  --host HOST         the host that the client asks for
  -H 'Name: value'    a header field; may be repeated
  -H @FILE            the header fields in the lines of a file, - for the standard input: so that a
                      token is not on the command line
  -d BODY             the request's body
  ${JSON_LINE}

${SERVER}`

export const CALLER_HELP = `Usage: edge caller [--json] [--policy POLICY] KEY=VALUE...
       edge caller [--json] [--policy POLICY] VALUE

Shows everything that is known of a caller: what it has left of each rule, since when it is
rejected, which overrides concern it, and commands to go on with. KEY=VALUE is any descriptor, such
as header:x-api-key=alice; several narrow the search. A VALUE alone is tried with every rule that
has one key, and rules with several keys are listed with what they need to be looked up. Limits that
all callers share are not listed: edge explain shows them.
A credential may also be given as its digest; what it has left is then not known.

  --policy POLICY     only rules of this policy
  ${JSON_LINE}

${SERVER}`

export const COUNTERS_HELP = `Usage: edge counters [--json] POLICY RULE KEY=VALUE...

Shows what a caller has left of a rule. KEY=VALUE names the caller by all of the rule's limit_keys,
such as header:x-api-key=alice; a rule without limit_keys needs none. A credential is given itself,
not as its digest.

  ${JSON_LINE}

${SERVER}`

export const RESET_HELP = `Usage: edge reset [--json] POLICY RULE KEY=VALUE... --reason TEXT

Makes a caller's counters of a rule full again, on all workers and on all instances that share a
Redis. KEY=VALUE as in edge counters.

  --reason TEXT       why, for the log
  ${ACTOR_LINE}
  ${JSON_LINE}

${SERVER}`

export const OVERRIDE_HELP = `Usage: edge override POLICY RULE KEY=VALUE... CHANGE --until TIME --reason TEXT [--replace ID]
       edge override POLICY RULE --all CHANGE --until TIME --reason TEXT [--replace ID]
       edge override --shadow-all --until TIME --reason TEXT [--replace ID]
       edge override --edit ID [CHANGE] [--until TIME] --reason TEXT
       edge override --end ID --reason TEXT
       edge override --list | --history

Changes a rule until a time, for the caller that KEY=VALUE names (as in edge counters) or, with
--all, for all callers of the rule. A credential may also be given as its digest, as edge top shows
it. What is for all callers is shown before it is done, and has to be confirmed: a terminal asks
whether to go on, and elsewhere the command needs --yes. Without it, nothing is changed and the exit
status is 2.

CHANGE is one of
  --multiply N        N times the rate and the size of the limit; what was spent stays spent
  --set FIELD=N       another value for a field of algorithm_config; may be repeated
  --unlimited         no limit
  --block             every request is rejected with 403. Streams that are open go on until they
                      end, unless --cut-streams is given: it ends those of the blocked callers at
                      once, on all instances; not in EDGE_MODE=decision_service

  --all               for all callers of the rule
  --shadow-all        enforce nothing: all policies only record what they would reject
  --until TIME        when it ends: a time from now (90s, 30m, 2h) or a date (2026-01-31T12:00:00Z)
  --reason TEXT       why, for the log
  --replace ID        take the place of this override; otherwise a second one for the same caller is
                      refused
  --edit ID           change what an override does or when it ends; what is not given stays
  --end ID            end an override
  --list              list all overrides
  --history           list those that ended, were replaced, edited or expired since the instance
                      started
  --dry-run           show what would change, and change nothing
  --yes               go on with what is for all callers; needed where there is no terminal
  ${ACTOR_LINE}
  --json              print the response of the API as it is

${SERVER}`

export const KEYS_HELP = `Usage: edge keys create LABEL=VALUE... --reason TEXT [--expires TIME]
       edge keys list [LABEL=VALUE...]
       edge keys show ID
       edge keys change ID [LABEL=VALUE...] [--expires TIME] --reason TEXT
       edge keys revoke ID --reason TEXT [--keep-streams]
       edge keys export
       edge keys import FILE --reason TEXT [--prune] [--dry-run]
       edge keys acknowledge --reason TEXT

Issues keys, which callers send as credentials, and by whose labels a bundle with callers.keys knows
them. A key is shown once, when it is created; only a digest of it is kept. To replace a key, issue
a second one with the same labels, and revoke the first once nobody uses it. A revoked key stays
revoked for good, and revoking it ends its streams and its other requests under way. Labels given to
change replace all labels that the key has.
Export prints the keys that are not revoked as JSON lines, for Git: their digests and labels, never
the keys. Import creates and changes keys until they are as the file says; to import a file again
changes nothing. It prints what differs: + is created, ~ is changed, - is revoked. A key that has
expired by the file is not created, and is revoked where it is still active. A line of a key that
was revoked is refused, the others are imported, and the exit status is 1.
Acknowledge ends the problem keys_tail_dropped: you know that the file of keys was cut.

  --expires TIME      when it ends: a time from now (12h, 90d), a date (2026-01-31T12:00:00Z), or
                      never [never]
  --reason TEXT       why, for the log
  --keep-streams      revoke: let requests under way go on
  --prune             import: revoke the keys that are not in the file
  --dry-run           import: print what differs, and change nothing
  ${ACTOR_LINE}
  ${JSON_LINE}

${SERVER}`

export const BUNDLE_HELP = `Usage: edge bundle [--json] [VERSION]
       edge bundle --text [--json] [VERSION]
       edge bundle --diff [--json] [FROM [TO]]

Shows the active bundle, the one before it, its source and what is wrong with that, what the active
bundle changed, and the last ten bundles that were active since the instance started. With VERSION:
what that one changed.

  --text              print the text of a bundle [the active one]
  --diff              print the lines that differ between two texts [the previous one, the active
                      one]
  ${JSON_LINE}

Credentials that rules match are shown as digests.

${SERVER}`

export const ROLLBACK_HELP = `Usage: edge rollback [--to VERSION]
       edge rollback [--to VERSION] --publish FILE --reason TEXT [--actor NAME]

Prints the policies of an earlier bundle under the next version: its text as it was, with another
bundle_version. An instance refuses versions that are not above the active one, so going back is a
new bundle. Credentials are printed in clear, because the text is to be published; that they were
read is an event and a change.

  --to VERSION        one of the last ten bundles that were active [the previous one, unless it was
                      rolled back itself]
  --publish FILE      write it to the file that the instance reads, and wait until it is active. If
                      the instance reads another file or a URL, or takes signed bundles only,
                      nothing is written or printed but the way to go
  --reason TEXT       why, for the list of changes
  ${ACTOR_LINE}

${SERVER}`

export const EVENTS_HELP = `Usage: edge events [--since TIME] [--type NAME]... [--limit N] [--json]
       edge events --follow [--since TIME] [--type NAME]... [--json]

Shows what the instance has logged as events in the last hour, the oldest first: rejects, changes,
problems and their ends. The hour is kept in bounded memory, and each name has its share: many
rejects do not push out a bundle that was refused. Events about requests are counted in one line of
each kind until something else happens; with --type, each has its line. Events never name callers;
edge top and edge changes do.

  --since TIME        since when: a time ago (90s, 30m, 1h) or a date (2026-01-31T12:00:00Z) [1h]
  --type NAME         only this event (reject), or all whose names begin so (bundle, override); may
                      be repeated
  --limit N           at most so many events, the newest [with --type or --json 500, else all]
  -f, --follow        go on with what happens from now on, until Ctrl-C
  --json              print the response of the API as it is; with --follow a line for each event

${SERVER}`

export const CHANGES_HELP = `Usage: edge changes [--since TIME] [--limit N] [--json]

Shows who changed what, and why, the newest first: bundles that were applied or refused, or whose
credentials were read in clear, overrides that were set, replaced or ended, and resets. In a fleet,
overrides of all instances are listed, and bundles and resets of the instance that is asked. The
list is kept in memory since the process started, and each kind of change has its share.

  --since TIME        since when: a time ago (30m, 2h, 7d) or a date (2026-01-31T12:00:00Z)
  --limit N           at most so many, the newest [100]
  ${JSON_LINE}

${SERVER}`
