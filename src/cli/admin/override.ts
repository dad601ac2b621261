import { parseArgs } from 'node:util'
import type { OverrideJson, OverrideRequestJson, Overrides } from '../../admin/api/types.ts'
import { callerText, readSubject, UsageProblem } from '../text/caller-values.ts'
import { listText } from '../text/text-table.ts'
import { type AdminCommand, type AdminQuestion, JSON_OPTION, reasonFlag } from './admin-command.ts'
import { OVERRIDE_HELP } from './help.ts'

const OPTIONS = {
  ...JSON_OPTION,
  multiply: { type: 'string' },
  set: { type: 'string', multiple: true },
  unlimited: { type: 'boolean' },
  block: { type: 'boolean' },
  'shadow-all': { type: 'boolean' },
  until: { type: 'string' },
  reason: { type: 'string' },
  replace: { type: 'string' },
  list: { type: 'boolean' },
  end: { type: 'string' },
} as const

/** Actions of the command, which exclude each other. */
const ACTIONS = ['multiply', 'set', 'unlimited', 'block', 'shadow-all', 'list', 'end'] as const

/** Options that --list and --end allow; the first is the action itself. */
const LISTING = ['list', 'json']
const ENDING = ['end', 'reason', 'json']

export const override: AdminCommand = {
  name: 'override',
  help: OVERRIDE_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const actions = ACTIONS.filter((name) => values[name] !== undefined)
    if (actions.length !== 1) throw new UsageProblem(`expected exactly one of ${ACTIONS.map((name) => `--${name}`).join(', ')}`)
    const { list, end } = values
    if (list) return listing(refuseOthers(values, positionals, LISTING))
    if (end !== undefined) return ending(end, refuseOthers(values, positionals, ENDING))
    return creation(values, positionals)
  },
}

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>['values']

function refuseOthers(values: Values, positionals: readonly string[], known: readonly string[]): Values {
  const surplus = [
    ...Object.keys(values)
      .filter((name) => !known.includes(name))
      .map((name) => `--${name}`),
    ...positionals,
  ]
  if (surplus.length > 0) throw new UsageProblem(`--${known[0]}: unexpected ${surplus.join(', ')}`)
  return values
}

function listing({ json }: Values): AdminQuestion {
  const describe = ({ overrides }: Overrides): string =>
    overrides.length === 0 ? 'No overrides.\n' : overrides.map(overrideText).join('\n')
  return { request: { method: 'GET', path: 'overrides' }, isJson: json, describe }
}

function ending(id: string, { json, reason }: Values): AdminQuestion {
  if (id === '') throw new UsageProblem('--end: expected the id of an override; --list shows them')
  const query = { reason: reasonFlag(reason) }
  return { request: { method: 'DELETE', path: `overrides/${encodeURIComponent(id)}`, query }, isJson: json, describe: () => 'Ended.\n' }
}

function creation(values: Values, positionals: readonly string[]): AdminQuestion {
  const { json, until, replace } = values
  if (!until) throw new UsageProblem('expected --until TIME, such as 2h or 2026-01-31T12:00:00Z')
  const body: OverrideRequestJson = {
    ...(values['shadow-all'] ? shadowAll(positionals) : { ...ruleOf(positionals), ...changeOf(values) }),
    until,
    reason: reasonFlag(values.reason),
    ...(replace !== undefined && { replace }),
  }
  return { request: { method: 'POST', path: 'overrides', body }, isJson: json, describe: overrideText }
}

function shadowAll(positionals: readonly string[]): Pick<OverrideRequestJson, 'shadow_all'> {
  if (positionals.length > 0) throw new UsageProblem(`--shadow-all is for all policies: unexpected ${positionals.join(', ')}`)
  return { shadow_all: true }
}

/** Without values, the override is for all callers of the rule. */
function ruleOf(positionals: readonly string[]): Pick<OverrideRequestJson, 'policy' | 'rule' | 'values'> {
  const { policy, rule, values } = readSubject(positionals)
  return positionals.length > 2 ? { policy, rule, values } : { policy, rule }
}

function changeOf({ multiply, set, unlimited }: Values): Pick<OverrideRequestJson, 'multiply' | 'set' | 'unlimited' | 'block'> {
  if (multiply !== undefined) return { multiply: readFactor(multiply) }
  if (set !== undefined) return { set: readFields(set) }
  return unlimited ? { unlimited: true } : { block: true }
}

function readFactor(text: string): number {
  const factor = Number(text)
  if (text.trim() === '' || !Number.isFinite(factor)) throw new UsageProblem(`--multiply: expected a number, got ${JSON.stringify(text)}`)
  return factor
}

function readFields(texts: readonly string[]): Readonly<Record<string, number | string>> {
  const fields = new Map<string, number | string>()
  for (const [field, value] of texts.map(readField)) {
    if (fields.has(field)) throw new UsageProblem(`--set: ${field} is given twice`)
    fields.set(field, value)
  }
  return Object.fromEntries(fields)
}

/** A value that is not a number is sent as text: the API knows the fields and reports what they expect. */
function readField(text: string): [string, number | string] {
  const [, field, value] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  if (field === undefined || value === undefined)
    throw new UsageProblem(`--set: expected FIELD=N, such as burst=20, got ${JSON.stringify(text)}`)
  return [field, Number.isFinite(Number(value)) ? Number(value) : value]
}

/** Describes an override in several lines. */
function overrideText(override: OverrideJson): string {
  const { id, until, actor, reason, created_at: createdAt } = override
  const rows: [string, string][] = [
    ['change', overrideChangeText(override)],
    ['where', whereText(override)],
    ['until', until],
    ['by', `${actor}, ${createdAt}`],
    ['reason', reason],
  ]
  for (const note of notesOf(override)) rows.push(['note', note])
  return `${id}\n${listText(rows)}`
}

/** Describes the change in a few words. */
export function overrideChangeText({ multiply, set, unlimited, block, shadow_all: isShadowAll }: OverrideJson): string {
  if (isShadowAll) return 'nothing is enforced'
  if (multiply !== undefined) return `${multiply} times the limit`
  if (set !== undefined)
    return Object.entries(set)
      .map(([field, value]) => `${field}=${value}`)
      .join(' ')
  if (unlimited) return 'no limit'
  return block ? 'blocked' : 'unknown change'
}

function whereText({ shadow_all: isShadowAll, policy, rule, values }: OverrideJson): string {
  if (isShadowAll) return 'all policies'
  const caller = values === undefined || values === null ? 'all callers' : callerText(values)
  return `policy ${policy}, rule ${rule}, ${caller}`
}

function* notesOf({ durable, in_force: isInForce }: OverrideJson): Generator<string> {
  if (!isInForce) yield 'not in force: its rule is not in the active bundle, or cannot be changed this way'
  if (!durable) yield 'will not survive a restart: it is not saved in a state file or in Redis'
}
