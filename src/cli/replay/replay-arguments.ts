import { parseArgs } from 'node:util'

/** Each log has an open file and a window of requests in memory. */
const MAX_LOGS = 500
const MODES = ['decision_service', 'reverse_proxy'] as const

export interface ReplayArguments {
  readonly isHelp: boolean
  readonly bundles: readonly string[]
  readonly logs: readonly string[]
  readonly isJson: boolean
  readonly htmlFile: string | undefined
  readonly mode: (typeof MODES)[number]
}

/** Throws a ReplayProblem, or what parseArgs throws. */
export function readReplayArguments(args: string[]): ReplayArguments {
  const { values, positionals } = parseArgs({
    args,
    options: {
      bundle: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      html: { type: 'string' },
      mode: { type: 'string', default: MODES[0] },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  })
  const { bundle: bundles, json: isJson, html: htmlFile, help: isHelp } = values
  const mode = MODES.find((name) => name === values.mode)
  if (isHelp) return { isHelp, bundles, logs: positionals, isJson, htmlFile, mode: MODES[0] }
  if (bundles.length === 0) throw new ReplayProblem('expected --bundle FILE')
  if (bundles.length > 2) throw new ReplayProblem(`expected one or two bundles, got ${bundles.length}`)
  if (mode === undefined) throw new ReplayProblem(`--mode: expected ${MODES.join(' or ')}, got ${JSON.stringify(values.mode)}`)
  if (htmlFile === '' || htmlFile === '-') throw new ReplayProblem('--html: expected the name of a file')
  if (positionals.length === 0) throw new ReplayProblem('expected at least one log; - is standard input')
  if (positionals.length > MAX_LOGS)
    throw new ReplayProblem(`expected at most ${MAX_LOGS} logs, got ${positionals.length}; join some with cat`)
  const twice = positionals.find((log, i) => positionals.indexOf(log) !== i)
  if (twice !== undefined) throw new ReplayProblem(`${twice === '-' ? 'standard input' : twice} is given twice`)
  return { isHelp, bundles, logs: positionals, isJson, htmlFile, mode }
}

/** This text is apart from the other help texts, which load all settings. */
export const REPLAY_HELP = `Usage: edge replay --bundle FILE [--bundle FILE] [options] LOG...

Replays recorded requests against one or two policy bundles, with a clock that follows the times in
the logs, and reports who would be rejected, when and by which rule; with two bundles, also what the
second would change. Nothing is sent anywhere.

A LOG is an access log of nginx or Apache (combined format), lines of JSON (as EDGE_DECISION_LOG
writes them, or with nginx's names), or a HAR document; gzip is read too, and - is standard input.
Several logs are merged by time.

  --bundle FILE       the bundle to replay against; a second one is compared with the first
  --json              print the report as JSON
  --html FILE         also write the report as an HTML page with charts, readable only by its owner
  --mode MODE         decision_service (the default), or reverse_proxy, which reads bodies where a
                      log has them

EDGE_TRUSTED_PROXIES, EDGE_STORE_SIZE, EDGE_MAX_BODY_BYTES and the IP files (EDGE_GEOIP_FILE,
EDGE_IP_TYPE_FILE, EDGE_TOR_EXITS_FILE) apply as in edge serve.
Exit status: 0 if requests were replayed; 1 and a sentence on standard error otherwise. Lines that
cannot be read are counted.
`

/** Nothing can be replayed; the message says why in a sentence, perhaps with details in further lines. */
export class ReplayProblem extends Error {
  readonly details: readonly string[]

  constructor(message: string, details: readonly string[] = []) {
    super(message)
    this.details = details
  }
}
