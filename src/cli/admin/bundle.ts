import { parseArgs } from 'node:util'
import type {
  BundleChangesJson,
  BundleComparisonJson,
  BundleJson,
  BundleListJson,
  BundleReportJson,
  BundleSourceJson,
  BundleTextJson,
  ChangeCountsJson,
  ChangesInShortJson,
  FieldChangeJson,
} from '../../admin/api/instance-types.ts'
import { unifiedDiff } from '../../text/line-diff.ts'
import { printableText } from '../../text/printable.ts'
import { AdminProblem, UsageProblem } from '../text/caller-values.ts'
import { countText, listText, printable, tableText } from '../text/text-table.ts'
import type { AdminClient, AdminRequest } from './admin-client.ts'
import { type AdminCommand, type AdminQuestion, JSON_OPTION, showOnce } from './admin-command.ts'
import { BUNDLE_HELP } from './help.ts'

const OPTIONS = { ...JSON_OPTION, text: { type: 'boolean', default: false }, diff: { type: 'boolean', default: false } } as const

export const bundle: AdminCommand = {
  name: 'bundle',
  help: BUNDLE_HELP,
  read(args) {
    const { values, positionals: versions } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const { text: isText, diff: isDiff, json: isJson } = values
    if (isText && isDiff) throw new UsageProblem('expected --text or --diff, not both')
    if (versions.length > (isDiff ? 2 : 1)) throw new UsageProblem(`expected ${isDiff ? 'two versions' : 'one version'} at most`)
    const wrong = versions.find((version) => !/^\d{1,30}$/.test(version))
    if (wrong !== undefined) throw new UsageProblem(`expected a version such as 41, got ${JSON.stringify(wrong)}`)
    if (isText) return { request: bundleRequest, isJson, describe: reportText, show: (client) => showText(client, versions[0], isJson) }
    if (isDiff) return { request: bundleRequest, isJson, describe: reportText, show: (client) => showDiff(client, versions, isJson) }
    const [version] = versions
    if (version !== undefined) return { request: changesRequest(version), isJson, describe: comparisonText }
    const overview: AdminQuestion = { request: bundleRequest, isJson, describe: reportText }
    return isJson ? overview : { ...overview, show: (client) => showOverview(client, overview) }
  },
}

const bundleRequest: AdminRequest = { method: 'GET', path: 'bundle' }

function changesRequest(version: string, from?: string): AdminRequest {
  return { method: 'GET', path: `bundles/${version}/changes`, ...(from !== undefined && { query: { from } }) }
}

export async function askBundle(client: AdminClient): Promise<BundleReportJson> {
  return (await client.ask(bundleRequest)).json as BundleReportJson
}

export async function askBundles(client: AdminClient): Promise<BundleListJson['bundles']> {
  return ((await client.ask({ method: 'GET', path: 'bundles' })).json as BundleListJson).bundles
}

async function showOverview(client: AdminClient, overview: AdminQuestion): Promise<void> {
  await showOnce(client, overview)
  const bundles = await askBundles(client)
  if (bundles.length > 1) process.stdout.write(`\nActive since the start, the newest first\n${listedText(bundles)}`)
}

/** The text alone goes to standard output, so that it can be put into a file. */
async function showText(client: AdminClient, version: string | undefined, isJson: boolean): Promise<void> {
  const asked = version ?? (await newest(client, 0))
  const request: AdminRequest = { method: 'GET', path: `bundles/${asked}` }
  if (isJson) return showOnce(client, { request, isJson, describe: String })
  const { text, hidden } = (await client.ask(request)).json as BundleTextJson
  process.stdout.write(terminalText(text))
  noteHidden(hidden)
}

async function showDiff(client: AdminClient, versions: readonly string[], isJson: boolean): Promise<void> {
  const from = versions[0] ?? (await newest(client, 1))
  const to = versions[1] ?? (await newest(client, 0))
  if (isJson) return showOnce(client, { request: changesRequest(to, from), isJson, describe: String })
  const [before, after] = [await askText(client, from), await askText(client, to)]
  const difference = unifiedDiff(before.text, after.text, [`bundle ${before.version}`, `bundle ${after.version}`])
  if (difference === undefined)
    throw new AdminProblem(
      `the texts differ in too many lines to show them; edge bundle ${to} says what it changed, and --text prints a text`,
    )
  process.stdout.write(difference === '' ? 'No differences.\n' : printableLines(difference))
  noteHidden(before.hidden + after.hidden)
}

async function askText(client: AdminClient, version: string): Promise<BundleTextJson> {
  return (await client.ask({ method: 'GET', path: `bundles/${version}` })).json as BundleTextJson
}

async function newest(client: AdminClient, age: number): Promise<string> {
  const found = (await askBundles(client))[age]
  if (found !== undefined) return found.version
  throw new AdminProblem(age === 0 ? 'no bundle is active' : 'no other bundle was active since the instance started')
}

function noteHidden(hidden: number): void {
  if (hidden > 0) process.stderr.write(`edge bundle: ${countText(hidden, 'credential')} shown as digest${hidden === 1 ? '' : 's'}\n`)
}

/** Somebody else's text: as it is where a file or another program gets it, and safe to print on a terminal. */
export function terminalText(text: string): string {
  return process.stdout.isTTY ? printableLines(text) : text
}

function printableLines(text: string): string {
  return text
    .split(/(\r?\n|\t)/)
    .map((part, i) => (i % 2 === 0 ? printableText(part) : part))
    .join('')
}

function reportText({ bundle: active, source, previous, changes }: BundleReportJson): string {
  const rows: [string, string][] = [['active', active === null ? 'none: every request gets 503' : bundleText(active)]]
  if (previous !== null) rows.push(['previous', bundleText(previous)])
  rows.push(...sourceRows(source))
  const changed = changes === null ? '' : `\nWhat version ${active!.version} changed: ${changesText(changes)}`
  return `${listText(rows, '')}${changed}`
}

function bundleText({ version, hash, policies, applied_at: appliedAt }: BundleJson): string {
  return `version ${version}, ${countText(policies, 'policy', 'policies')}, since ${appliedAt}, sha256 ${hash.slice(0, 12)}`
}

const SHOWN_PROBLEMS = 10

function* sourceRows(source: BundleSourceJson | null): Generator<[string, string]> {
  if (source === null) return yield ['source', 'none: neither EDGE_CONFIG_FILE nor EDGE_CONFIG_URL is set']
  const { path, url, cached, signature_required: isSigned, problem, refused } = source
  yield [
    'source',
    `${path ?? url}${isSigned ? ', signed bundles only' : ''}${cached ? ', not reached yet: the bundle is from the cache' : ''}`,
  ]
  if (refused === null) {
    if (problem !== null) yield ['problem', problem]
    return
  }
  yield [
    'refused',
    `${refused.version === null ? 'a bundle' : `version ${refused.version}`}, ${countText(refused.problems_in_all, 'problem')}:`,
  ]
  for (const text of refused.problems.slice(0, SHOWN_PROBLEMS)) yield ['', text]
  if (refused.problems_in_all > SHOWN_PROBLEMS) yield ['', '… edge validate lists all']
}

function comparisonText({ from, to, changes }: BundleComparisonJson): string {
  return `What version ${to} changed since ${from}: ${changesText(changes)}`
}

/** In numbers, then one by one. */
function changesText(changes: BundleChangesJson): string {
  const lines = [`${inShort(changes)}\n`]
  for (const { kind, policy, fields, rules, left_out: leftOut } of changes.policy_changes) {
    lines.push(`  ${kind} policy ${policy}\n`)
    if (kind !== 'changed') continue
    lines.push(...fields.map((field) => `    ${fieldText(field)}\n`))
    for (const rule of rules) {
      lines.push(`    ${rule.kind} rule ${rule.rule}\n`)
      if (rule.kind === 'changed') lines.push(...rule.fields.map((field) => `      ${fieldText(field)}\n`))
    }
    if (leftOut > 0) lines.push(`    and ${countText(leftOut, 'more line')}\n`)
  }
  for (const { kind, table, model, fields } of changes.price_changes) {
    lines.push(`  ${kind} price ${table} ${model}\n`)
    if (kind === 'changed') lines.push(...fields.map((field) => `    ${fieldText(field)}\n`))
  }
  if (changes.caller_changes.length > 0)
    lines.push('  changed callers\n', ...changes.caller_changes.map((field) => `    ${fieldText(field)}\n`))
  if (changes.routing_changes.length > 0)
    lines.push('  changed backends and routes\n', ...changes.routing_changes.map((field) => `    ${fieldText(field)}\n`))
  if (changes.usage_changes.length > 0)
    lines.push('  changed usage\n', ...changes.usage_changes.map((field) => `    ${fieldText(field)}\n`))
  if (!changes.complete) lines.push('  and more: edge bundle --diff compares the texts\n')
  return lines.join('')
}

function fieldText({ field, before, after }: FieldChangeJson): string {
  return `${field}: ${before ?? 'none'} → ${after ?? 'none'}`
}

/** `1 policy added, 2 changed`. */
function inShort({ policies, prices, reordered, callers, routing, usage }: ChangesInShortJson): string {
  const parts = [...countedChanges(policies, 'policy', 'policies'), ...countedChanges(prices, 'price', 'prices')]
  if (reordered) parts.push('another order')
  if (callers) parts.push('callers changed')
  if (routing) parts.push('backends or routes changed')
  if (usage) parts.push('usage changed')
  return parts.length === 0 ? 'nothing' : parts.join(', ')
}

function* countedChanges({ added, removed, changed }: ChangeCountsJson, one: string, many: string): Generator<string> {
  for (const [count, what] of [[added, 'added'] as const, [removed, 'removed'] as const, [changed, 'changed'] as const])
    if (count > 0) yield `${countText(count, one, many)} ${what}`
}

function listedText(bundles: BundleListJson['bundles']): string {
  const columns = [
    { head: 'VERSION', isNumber: true },
    { head: 'SINCE' },
    { head: 'POLICIES', isNumber: true },
    { head: 'WARNINGS', isNumber: true },
    { head: 'CHANGED' },
  ]
  const rows = (printable(bundles) as BundleListJson['bundles']).map(
    ({ version, applied_at: at, policies, warnings, has_text: hasText, changes }) => [
      version,
      at,
      String(policies),
      String(warnings),
      `${changes === null ? 'the first one' : inShort(changes)}${hasText ? '' : '; its text is not kept'}`,
    ],
  )
  return tableText(columns, rows)
}
