import type { CallerRule, CallersJson, IncompleteRule, RejectedCaller, TopJson } from '../../admin/api/caller-types.ts'
import type { OverrideJson } from '../../admin/api/types.ts'
import { callerText } from '../text/caller-values.ts'
import { countText, listText, numberText } from '../text/text-table.ts'
import { levelText, resetText } from './counters.ts'
import { completeLookup, nextCommands, variableFor } from './next-commands.ts'
import { overrideChangeText } from './override-text.ts'
import { exactnessText, nearestTable, rejectedTable } from './top-text.ts'

/** What is known of a caller. `isBare`: it was asked for by a value without a key. The value is not repeated, because it may be a credential. */
export function callersText(found: CallersJson, isBare: boolean): string {
  const { rules, incomplete_rules: incomplete, overrides, top } = found
  const known = rules.filter((rule) => isKnown(rule, found))
  const others = rules.filter((rule) => !known.includes(rule))
  const names = new Set(known.map(nameOf))
  const rejected = top?.rejected.filter((row) => !names.has(nameOf(row))) ?? []
  const nearest = top?.nearest.filter((row) => !names.has(nameOf(row))) ?? []
  const parts = [
    headline(found, known, isBare),
    ...known.map((rule) => ruleText(rule, found)),
    rejected.length === 0 ? '' : `Rejected in the last hour by other rules\n${rejectedTable(rejected)}`,
    nearest.length === 0 ? '' : `Near a limit of other rules\n${nearestTable(nearest)}`,
    silentText(others.filter(({ by_digest: isByDigest }) => !isByDigest)),
    digestText(others.filter(({ by_digest: isByDigest }) => isByDigest)),
    incompleteText(incomplete),
    overrides.length === 0 ? '' : `Overrides\n${listText(overrides.map(overrideRow))}`,
    notesOf(found, isBare).join(''),
    commandsText(found, known),
  ]
  return parts.filter((part) => part !== '').join('\n')
}

const MAX_LINES = 20

interface RuleName {
  readonly policy: string
  readonly rule: string
}

function nameOf({ policy, rule }: RuleName): string {
  return `${policy} / ${rule}`
}

/** Whether there is more to say about a rule than that its counters are full. */
function isKnown(rule: CallerRule, { top }: CallersJson): boolean {
  return rule.counted || rule.override !== null || rule.algorithm === 'block' || rejectsOf(rule, top) !== undefined
}

function rejectsOf(rule: RuleName, top: TopJson | null): RejectedCaller | undefined {
  return top?.rejected.find((row) => nameOf(row) === nameOf(rule))
}

function headline(found: CallersJson, known: readonly CallerRule[], isBare: boolean): string {
  const { bundle_version: version, rules_tried: tried, counters_known: isCounted, overrides, top } = found
  const name = isBare ? 'this value' : 'this caller'
  if (version === null) return `Nothing is known of ${name}: no bundle is active.\n`
  const hasRows = top !== null && top.rejected.length + top.nearest.length > 0
  if (known.length > 0)
    return `${numberText(known.length)} of ${countText(tried, 'rule')} that may count ${name} ${known.length === 1 ? 'knows' : 'know'} it.\n`
  if (hasRows || overrides.some(({ values }) => values)) return `No counter of ${name} alone is in use.\n`
  const counts = isCounted && !found.rules.some((rule) => rule.by_digest) ? ['no rule counts anything for it now'] : []
  const rejects = top === null ? [] : ['it was not rejected in the last hour']
  const facts = [...counts, ...rejects, 'no override names it'].join(', ').replace(/, ([^,]*)$/, ', and $1')
  return `Nothing is known of ${name}: ${facts}. Values are compared exactly: check the spelling.\n`
}

function ruleText(rule: CallerRule, { top, overrides }: CallersJson): string {
  const { mode, unit, counters, holds, override, algorithm } = rule
  const rows: [string, string][] = [['caller', callerOf(rule)]]
  if (algorithm === 'block') rows.push(['block', `rejects every request that ${coveredText(rule)} with 403`])
  for (const counter of counters ?? []) rows.push([counter.kind, `${levelText(counter, unit)}, ${resetText(counter)}`])
  if (counters === null) rows.push(['counters', rule.by_digest ? FROM_A_DIGEST : 'not known'])
  if (holds !== null) rows.push(['holds', countText(holds, 'request')])
  const rejects = rejectsOf(rule, top)
  if (rejects !== undefined) rows.push(['rejected', rejectsText(rejects)])
  const inForce = overrides.find(({ id }) => id === override)
  if (override !== null)
    rows.push(['override', inForce === undefined ? override : `${override}: ${overrideChangeText(inForce)} until ${inForce.until}`])
  if (rule.match_else || rule.depends_on.length > 0) rows.push(['applies', appliesText(rule)])
  return `${nameOf(rule)}${mode === 'shadow' ? ' (shadow: rejects nothing)' : ''}\n${listText(rows)}`
}

const FROM_A_DIGEST = 'not known from a digest; give the credential itself'

/** A rule without limit keys counts all callers that it covers together. */
function callerOf(rule: CallerRule): string {
  return Object.keys(rule.values).length > 0 ? callerText(rule.values) : `everybody that ${coveredText(rule)}`
}

function coveredText({ match_else: isElse }: CallerRule): string {
  return isElse ? 'no other rule of the policy matches' : 'its match covers'
}

function appliesText({ match_else: isElse, depends_on: dependsOn }: CallerRule): string {
  const keys = dependsOn.join(', ')
  if (!isElse) return `only where its match covers ${keys} too`
  return `only where no other rule of the policy with a match does${keys && `, which depends on ${keys}`}`
}

function rejectsText({ count, hour_count: hourCount, first_at: first, last_at: last }: RejectedCaller): string {
  return `${countText(hourCount, 'time')} in the last hour, ${numberText(count)} lately: first ${first}, last ${last}`
}

/** Rules for which the caller has everything left. */
function silentText(rules: readonly CallerRule[]): string {
  if (rules.length === 0) return ''
  const rows = rules.slice(0, MAX_LINES).map((rule): [string, string] => [nameOf(rule), silentRow(rule)])
  return `Nothing is counted for this caller now by\n${listText(rows)}${andMore(rules)}`
}

function silentRow({ counters, unit, mode }: CallerRule): string {
  if (counters === null) return 'not known'
  const left = counters.length === 0 ? 'no limit' : counters.map((counter) => levelText(counter, unit)).join(', ')
  return mode === 'shadow' ? `${left} (shadow)` : left
}

function andMore(rules: readonly unknown[]): string {
  return rules.length > MAX_LINES ? `  and ${numberText(rules.length - MAX_LINES)} more\n` : ''
}

/** Rules whose counters are not found by a digest, and that know the caller by nothing else. */
function digestText(rules: readonly CallerRule[]): string {
  if (rules.length === 0) return ''
  const rows = rules.slice(0, MAX_LINES).map((rule): [string, string] => [nameOf(rule), FROM_A_DIGEST])
  return `Rules that may count this caller\n${listText(rows)}${andMore(rules)}`
}

const MAX_LOOKUPS = 3

function incompleteText(rules: readonly IncompleteRule[]): string {
  if (rules.length === 0) return ''
  const lookups = [...new Set(rules.slice(0, MAX_LINES).map(lookupOf))].filter((lookup) => lookup !== undefined).slice(0, MAX_LOOKUPS)
  const list = `Rules that need more values\n${listText(rules.slice(0, MAX_LINES).map(missingRow))}${andMore(rules)}`
  return lookups.length === 0
    ? list
    : `${list}\nTo look them up, set the variables in\n${lookups.map((lookup) => `  ${lookup}\n`).join('')}`
}

function missingRow(rule: IncompleteRule): [string, string] {
  return [nameOf(rule), `also needs ${missingText(rule)}${rule.mode === 'shadow' ? ' (shadow)' : ''}`]
}

/** It is not known which of several keys a value alone belongs to. */
function missingText({ missing, may_be: mayBe }: IncompleteRule): string {
  if (mayBe.length < 2) return missing.filter((key) => !mayBe.includes(key)).join(', ')
  return `the ${missing.length === 2 ? 'other' : 'others'} of ${missing.join(', ')}`
}

function lookupOf({ policy, values, missing, may_be: mayBe }: IncompleteRule): string | undefined {
  const variables = missing.map((key): [string, string] => [key, key === mayBe[0] ? 'VALUE' : variableFor(key)])
  return completeLookup(policy, values, Object.fromEntries(variables))
}

function overrideRow(override: OverrideJson): [string, string] {
  const { id, shadow_all: isShadowAll, policy, rule, values, until, actor, reason, in_force: isInForce } = override
  const where = isShadowAll ? 'all policies' : `${policy} / ${rule}, ${values ? callerText(values) : 'all callers'}`
  return [id, `${overrideChangeText(override)}: ${where}, until ${until}, by ${actor}: ${reason}${isInForce ? '' : ' (not in force)'}`]
}

function notesOf({ rules_left_out: leftOut, unused_keys: unused, counters_known: isCounted, top }: CallersJson, isBare: boolean): string[] {
  const notes: string[] = []
  if (!isCounted) notes.push('Redis is unreachable, so what rules count is not known.\n')
  for (const key of unused) notes.push(`No rule of the active bundle has the key ${key}.\n`)
  const narrower = isBare ? 'name the key, such as header:x-api-key=…, or a policy with --policy' : 'name a policy with --policy'
  if (leftOut > 0) notes.push(`${countText(leftOut, 'more rule')} may concern this caller and was not looked at: ${narrower}.\n`)
  if (top === null) notes.push('Rejects are not known, because EDGE_TOP is off.\n')
  else if (exactnessText(top) !== '') notes.push(`How exact rejects are${exactnessText(top)}.\n`)
  return notes
}

/** For the rule that rejects the caller most, or else the first that knows it. */
function commandsText({ rules, incomplete_rules: incomplete, overrides, top }: CallersJson, known: readonly CallerRule[]): string {
  const worst = top?.rejected[0] ?? known[0] ?? top?.nearest[0] ?? rules[0]
  if (worst === undefined) return ''
  const inBundle = [...rules, ...incomplete].find((rule) => nameOf(rule) === nameOf(worst))
  const isCounted = rules.find((rule) => rule === inBundle && !rule.by_digest)?.counted ?? true
  const own = overrides.filter((override) => override.values && override.policy === worst.policy && override.rule === worst.rule)
  const { policy, rule, values } = worst
  const isInFlight = rules.some(({ counters, holds }) => (holds ?? 0) > 0 || counters?.some(({ reserved = 0 }) => reserved > 0))
  const commands = nextCommands({ policy, rule, values, inBundle, isCounted, isInFlight, overrides: own.map(({ id }) => id) })
  return commands.length === 0 ? '' : `Go on with\n${commands.map((command) => `  ${command}\n`).join('')}`
}
