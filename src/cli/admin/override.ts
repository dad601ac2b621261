import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import type { OverrideEditRequest, OverrideHistory, OverridePreviewJson, OverrideRequestJson, Overrides } from '../../admin/api/types.ts'
import { AdminProblem, readSubject, UnconfirmedProblem, UsageProblem } from '../text/caller-values.ts'
import { printable } from '../text/text-table.ts'
import type { AdminClient, AdminRequest } from './admin-client.ts'
import { ACTOR_OPTION, type AdminCommand, type AdminQuestion, actorFlag, JSON_OPTION, reasonFlag, showOnce } from './admin-command.ts'
import { OVERRIDE_HELP } from './help.ts'
import { endedOverrideText, overrideText, previewText } from './override-text.ts'

const OPTIONS = {
  ...JSON_OPTION,
  ...ACTOR_OPTION,
  all: { type: 'boolean' },
  multiply: { type: 'string' },
  set: { type: 'string', multiple: true },
  unlimited: { type: 'boolean' },
  block: { type: 'boolean' },
  'cut-streams': { type: 'boolean' },
  'shadow-all': { type: 'boolean' },
  until: { type: 'string' },
  reason: { type: 'string' },
  replace: { type: 'string' },
  edit: { type: 'string' },
  end: { type: 'string' },
  list: { type: 'boolean' },
  history: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean' },
} as const

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>['values']
type OptionName = keyof typeof OPTIONS

const CHANGES = ['multiply', 'set', 'unlimited', 'block'] as const

/** What the command does; each of these options excludes the others, and allows only these beside itself. */
const ACTIONS: Readonly<Partial<Record<OptionName, readonly OptionName[]>>> = {
  list: ['json'],
  history: ['json'],
  end: ['reason', 'actor', 'json'],
  edit: [...CHANGES, 'cut-streams', 'until', 'reason', 'dry-run', 'yes', 'actor', 'json'],
  'shadow-all': ['until', 'reason', 'replace', 'dry-run', 'yes', 'actor', 'json'],
}

export const override: AdminCommand = {
  name: 'override',
  help: OVERRIDE_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const actions = (Object.keys(ACTIONS) as OptionName[]).filter((name) => values[name] !== undefined)
    if (actions.length > 1) throw new UsageProblem(`expected only one of ${actions.map(flag).join(', ')}`)
    const [action] = actions
    if (action !== undefined) refuseOthers(values, positionals, action)
    const { json: isJson } = values
    if (action === 'list') return { request: { method: 'GET', path: 'overrides' }, isJson, describe: listText }
    if (action === 'history') return { request: { method: 'GET', path: 'overrides/history' }, isJson, describe: historyText }
    if (action === 'end') return ending(values)
    return action === 'edit' ? editing(values) : creation(values, positionals)
  },
  show: (client, question) => showConfirmed(client, question),
}

function flag(name: string): string {
  return `--${name}`
}

function refuseOthers(values: Values, positionals: readonly string[], action: OptionName): void {
  const known = [action, ...ACTIONS[action]!]
  const surplus = (Object.keys(values) as OptionName[]).filter((name) => !known.includes(name)).map(flag)
  if (surplus.length + positionals.length > 0) throw new UsageProblem(`--${action}: unexpected ${[...surplus, ...positionals].join(', ')}`)
}

function listText({ overrides }: Overrides): string {
  return overrides.length === 0 ? 'No overrides.\n' : overrides.map(overrideText).join('\n')
}

function historyText({ overrides }: OverrideHistory): string {
  return overrides.length === 0 ? 'No override has ended since the instance started.\n' : overrides.map(endedOverrideText).join('\n')
}

function ending({ end: id, json: isJson, reason, actor }: Values): AdminQuestion {
  const path = `overrides/${idFlag('end', id)}`
  const query = { reason: reasonFlag(reason) }
  return { request: { method: 'DELETE', path, query }, actor: actorFlag(actor), isJson, describe: () => 'Ended.\n' }
}

/** Ids are hexadecimal; anything else must not change the path. */
function idFlag(name: 'edit' | 'end', id: string | undefined): string {
  if (!id?.trim())
    throw new UsageProblem(`--${name}: expected the id of an override, got an empty text; edge override --list shows the ids`)
  return encodeURIComponent(id)
}

function editing(values: Values): AdminQuestion {
  const { until, 'cut-streams': cutsStreams } = values
  const id = idFlag('edit', values.edit)
  const change = changeOf(values)
  if (change === undefined && until === undefined && !cutsStreams)
    throw new UsageProblem('--edit: expected --until TIME, --cut-streams, or one of --multiply, --set, --unlimited, --block')
  const body: OverrideEditRequest = {
    ...(change ?? (cutsStreams && { cut_streams: true })),
    ...(until !== undefined && { until }),
    reason: reasonFlag(values.reason),
  }
  return confirmed(
    values,
    { method: 'PATCH', path: `overrides/${id}`, body },
    { method: 'POST', path: `overrides/preview/${id}`, body },
    true,
  )
}

function creation(values: Values, positionals: readonly string[]): AdminQuestion {
  const { until, replace, 'shadow-all': isShadowAll, all = false } = values
  const change = isShadowAll ? { shadow_all: true as const } : changeOf(values)
  if (change === undefined)
    throw new UsageProblem(
      'expected exactly one of --multiply, --set, --unlimited, --block, --shadow-all, --edit, --end, --list, --history',
    )
  if (!until) throw new UsageProblem('expected --until TIME, such as 2h or 2026-01-31T12:00:00Z')
  const body: OverrideRequestJson = {
    ...(!isShadowAll && ruleOf(positionals, all)),
    ...change,
    until,
    reason: reasonFlag(values.reason),
    ...(replace !== undefined && { replace }),
  }
  const isForAll = all || isShadowAll === true
  return confirmed(values, { method: 'POST', path: 'overrides', body }, { method: 'POST', path: 'overrides/preview', body }, isForAll)
}

/** `mayCoverAll` means that the preview must be looked at first, because the override may cover all callers. */
function confirmed(values: Values, request: AdminRequest, preview: AdminRequest, mayCoverAll: boolean): OverrideQuestion {
  const { json: isJson, yes: isConfirmed = false, 'dry-run': isDryRun } = values
  const actor = actorFlag(values.actor)
  if (isDryRun) return { request: preview, isJson, describe: (shown: OverridePreviewJson) => `Nothing was changed.\n${previewText(shown)}` }
  return { request, actor, isJson, describe: overrideText, ...(mayCoverAll && { preview, isConfirmed }) }
}

/** All callers have to be asked for: a variable of the shell that is empty must not block everybody. */
function ruleOf(positionals: readonly string[], isForAll: boolean): Pick<OverrideRequestJson, 'policy' | 'rule' | 'values' | 'all'> {
  const { policy, rule, values } = readSubject(positionals)
  const hasCaller = positionals.length > 2
  if (isForAll && hasCaller) throw new UsageProblem('--all is for all callers, and KEY=VALUE names one: expected one of the two')
  if (!isForAll && !hasCaller) throw new UsageProblem(missingCaller(rule))
  return isForAll ? { policy, rule, all: true } : { policy, rule, values }
}

/** An empty variable that is not in quotes leaves no argument, so that the caller is in the place of the rule. */
function missingCaller(rule: string): string {
  if (!rule.includes('=')) return 'expected KEY=VALUE to name a caller, or --all for all callers of the rule'
  return `expected POLICY RULE KEY=VALUE, got ${JSON.stringify(rule)} in the place of the rule: is the policy or the rule missing?`
}

type Change = Omit<OverrideEditRequest, 'until' | 'reason'>

function changeOf(values: Values): Change | undefined {
  const { multiply, set, unlimited, block, 'cut-streams': cutsStreams } = values
  const given = CHANGES.filter((name) => values[name] !== undefined)
  if (given.length > 1) throw new UsageProblem(`expected exactly one of ${CHANGES.map(flag).join(', ')}, got ${given.map(flag).join(', ')}`)
  const isEdit = values.edit !== undefined && given.length === 0
  if (cutsStreams && !block && !isEdit) throw new UsageProblem('--cut-streams: expected only with --block')
  if (multiply !== undefined) return { multiply: readFactor(multiply) }
  if (set !== undefined) return { set: readFields(set) }
  if (unlimited) return { unlimited: true }
  if (block) return cutsStreams ? { block: true, cut_streams: true } : { block: true }
  return undefined
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

/** Sends what is not a number as text: the API says which fields there are and what they expect. */
function readField(text: string): [string, number | string] {
  const [, field, value] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  if (field === undefined || value === undefined)
    throw new UsageProblem(`--set: expected FIELD=N, such as burst=20, got ${JSON.stringify(text)}`)
  return [field, Number.isFinite(Number(value)) ? Number(value) : value]
}

interface OverrideQuestion extends AdminQuestion {
  /** Asks what the change covers, before it is made. */
  readonly preview?: AdminRequest
  readonly isConfirmed?: boolean
}

/** Where an operator is asked: not on standard output, which has the response. */
export interface AskingTerminal {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean }
}

/** Changes something and shows the response. What covers all callers is shown first, and has to be confirmed: on a terminal, or by `--yes`. */
export async function showConfirmed(client: AdminClient, question: OverrideQuestion, terminal: AskingTerminal = process): Promise<void> {
  const { preview, isConfirmed } = question
  const coverage = preview && allCovered((await client.ask(preview)).json)
  if (coverage !== undefined) {
    terminal.stderr.write(`This is for all callers:\n${coverage}`)
    if (!isConfirmed) await confirm(terminal)
  }
  await showOnce(client, question)
}

async function confirm(terminal: AskingTerminal): Promise<void> {
  if (!terminal.stdin.isTTY || !terminal.stderr.isTTY)
    throw new UnconfirmedProblem('nothing was changed: without a terminal nobody can be asked, so what is for all callers needs --yes')
  if (!(await isAgreed('Go on? [y/N] ', terminal))) throw new AdminProblem('nothing was changed')
}

/** Describes what would be covered, if that is all callers. */
function allCovered(json: unknown): string | undefined {
  try {
    const preview = printable(json) as OverridePreviewJson
    return preview.covers.callers === 'all' ? previewText(preview) : undefined
  } catch (error) {
    throw new AdminProblem('this version of edge cannot read what the override would cover; nothing was changed', { cause: error })
  }
}

/** The end of the input means no. */
function isAgreed(text: string, { stdin, stderr }: AskingTerminal): Promise<boolean> {
  const lines = createInterface({ input: stdin, output: stderr, terminal: false })
  return new Promise((resolve) => {
    lines.on('close', () => resolve(false))
    lines.question(text, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()))
      lines.close()
    })
  })
}
