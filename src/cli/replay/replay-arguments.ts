import { parseArgs } from 'node:util'
import { ReplayProblem } from './replay-problem.ts'

/** Each has a file open, and a window of requests. */
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
