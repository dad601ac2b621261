import { parseArgs } from 'node:util'
import { KEY_FORMS, meantKey, parseDescriptorKey } from '../../policy/descriptor-key.ts'
import { show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { MEMBER_NAMES } from '../../usage-log/usage-sums.ts'

export interface UsageArguments {
  readonly isHelp: boolean
  readonly sources: readonly string[]
  readonly by: readonly string[]
  readonly rule: string | undefined
  /** Lines from this time on, and before the other. */
  readonly fromMs: number
  readonly toMs: number
  readonly format: 'table' | 'csv' | 'json'
}

const MAX_BY = 16

/** Throws a UsageReportProblem, or what parseArgs throws. */
export function readUsageArguments(args: string[]): UsageArguments {
  const { values, positionals: sources } = parseArgs({
    args,
    options: {
      by: { type: 'string', multiple: true, default: [] },
      rule: { type: 'string' },
      from: { type: 'string' },
      to: { type: 'string' },
      csv: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  })
  const { csv, json, help: isHelp, rule } = values
  const format = csv ? 'csv' : json ? 'json' : 'table'
  if (isHelp) return { isHelp, sources, by: [], rule, fromMs: 0, toMs: 0, format }
  if (csv && json) throw new UsageReportProblem('expected --csv or --json, got both')
  if (sources.length === 0) throw new UsageReportProblem('expected at least one directory, as EDGE_USAGE_DIR names it')
  const twice = sources.find((source, i) => sources.indexOf(source) !== i)
  if (twice !== undefined) throw new UsageReportProblem(`${twice} is given twice`)
  if (rule !== undefined && !/^.+\/.+$/.test(rule)) throw new UsageReportProblem(`--rule: expected POLICY/RULE, got ${show(rule)}`)
  const fromMs = values.from === undefined ? Number.NEGATIVE_INFINITY : readTime('--from', values.from)
  const toMs = values.to === undefined ? Number.POSITIVE_INFINITY : readTime('--to', values.to)
  if (fromMs >= toMs) throw new UsageReportProblem(`--to: expected a time after --from (${values.from}), got ${show(values.to)}`)
  return { isHelp, sources, by: readBy(values.by), rule, fromMs, toMs, format }
}

/** Several may be joined by commas. */
function readBy(given: readonly string[]): readonly string[] {
  const keys = given.length === 0 ? ['rule'] : given.flatMap((list) => list.split(','))
  if (keys.length > MAX_BY) throw new UsageReportProblem(`--by: expected at most ${MAX_BY} keys, got ${keys.length}`)
  const by = keys.map((key) => {
    if (MEMBER_NAMES.includes(key)) return key
    const parsed = parseDescriptorKey(key)
    if (parsed !== undefined) return parsed.text
    const meant = closest(key, MEMBER_NAMES) ?? meantKey(key)
    const hint = meant === undefined ? '' : ` — did you mean ${meant}?`
    throw new UsageReportProblem(`--by: expected ${MEMBER_NAMES.join(', ')}, or a label (${KEY_FORMS}), got ${show(key)}${hint}`)
  })
  const twice = by.find((key, i) => by.indexOf(key) !== i)
  if (twice !== undefined) throw new UsageReportProblem(`--by: ${twice} is named twice`)
  return by
}

const TIME = /^(\d{4}-\d{2})(?:(-\d{2})(T\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,3})?)?)?Z)?)?$/

/** Reads a month, a day, an hour or a moment, in UTC. */
function readTime(option: string, text: string): number {
  const [, month, day = '-01', time = 'T00Z'] = TIME.exec(text) ?? []
  const clock = /^T(\d{2})(?::(\d{2}))?(?::(.+))?Z$/.exec(time)
  const ms = month === undefined ? Number.NaN : Date.parse(`${month}${day}T${clock![1]}:${clock![2] ?? '00'}:${clock![3] ?? '00'}Z`)
  // A day that its month does not have is read as one of the next month.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== `${month}${day}`)
    throw new UsageReportProblem(`${option}: expected a time such as 2026-11, 2026-11-18 or 2026-11-18T10:30Z (UTC), got ${show(text)}`)
  return ms
}

/** This text is apart from the other help texts, which load all settings. */
export const USAGE_HELP = `Usage: edge usage [--by KEYS] [--from TIME] [--to TIME] [options] DIR...

Sums up what LLM requests used and were charged, from the files that edge serve writes to
EDGE_USAGE_DIR. A DIR is such a directory, of one or several instances, or a single file; files may
be compressed, and - is standard input. A request counts once in a row.

  --by KEYS           what each row stands for, joined by commas: labels that the bundle names in
                      usage.labels (caller:team), or rule, policy, mode, model, sent_model,
                      backend, status, end, hour, day, month; the default is rule
  --from TIME         requests settled at this time or later (UTC): 2026-11, 2026-11-18,
                      2026-11-18T10:30Z
  --to TIME           requests settled before this time
  --rule POLICY/RULE  only what this rule charged. Otherwise a request cost what the rule charged
                      that charged most, unless --by tells rules apart
  --csv               print CSV; a text that a spreadsheet would take for a formula begins with '
  --json              print JSON; cost is a text, exact to the billionth

CHARGED is what rules charged in tokens, by their weights; it includes requests whose usage nobody
knows. COST is in units of the currency.
Exit status: 0, with --csv and --json also if there was no request; 1 and a sentence on standard
error if nothing could be read, there is nothing to show in a table, or a file is given twice. Lines that cannot be read are counted, such as the last one of a process that was killed,
and files that end early are named; --json has both. A table cuts values of over 80 characters.
`

/** Nothing can be summed up; the message says why in a sentence. */
export class UsageReportProblem extends Error {}
