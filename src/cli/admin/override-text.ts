import type { EndedOverrideJson, OpenStreamsJson, OverrideJson, OverridePreviewJson, RuleEffectJson } from '../../admin/api/types.ts'
import { callerText } from '../text/caller-values.ts'
import { countText, listText, numberText } from '../text/text-table.ts'

type Rows = [name: string, value: string][]

/** Describes an override in several lines. */
export function overrideText(override: OverrideJson): string {
  return `${override.id}\n${listText([...factsOf(override), ...[...notesOf(override)].map((note): [string, string] => ['note', note])])}`
}

/** Describes an override that is over, with who ended it and why. */
export function endedOverrideText(override: EndedOverrideJson): string {
  const { at, why, actor, reason } = override.ended
  const by = actor === null ? `${at}, expired` : `${at}, ${why} by ${actor}: ${reason}`
  return `${override.id}\n${listText([...factsOf(override), ['ended', by]])}`
}

/** Describes what an override would do: whom it covers, and the limits before and after. */
export function previewText(preview: OverridePreviewJson): string {
  const { until, replaces, streams } = preview
  const rows: Rows = [['covers', coverageText(preview)], ...limitRows(preview), ['until', until]]
  if (replaces !== null) rows.push(['replaces', replaces])
  if (streams) rows.push(['streams', streamsText(streams)])
  return listText(rows)
}

type Facts = Omit<EndedOverrideJson, 'ended'>

function factsOf(override: Facts): Rows {
  const { until, actor, reason, created_at: createdAt, edited } = override
  const rows: Rows = [
    ['change', overrideChangeText(override)],
    ['where', whereText(override)],
    ['until', until],
    ['by', `${actor}, ${createdAt}`],
    ['reason', reason],
  ]
  if (edited) rows.push(['edited', `${edited.actor}, ${edited.at}: ${edited.reason}`])
  return rows
}

type Change = Pick<OverrideJson, 'multiply' | 'set' | 'unlimited' | 'block' | 'cut_streams' | 'shadow_all'>

/** Says in a few words what an override changes. */
export function overrideChangeText({ multiply, set, unlimited, block, cut_streams: cutsStreams, shadow_all: isShadowAll }: Change): string {
  if (isShadowAll) return 'nothing is enforced'
  if (multiply !== undefined) return `${multiply} times the limit`
  if (set !== undefined)
    return Object.entries(set)
      .map(([field, value]) => `${field}=${value}`)
      .join(' ')
  if (unlimited) return 'no limit'
  if (block) return cutsStreams ? 'blocked, and open streams are cut' : 'blocked'
  return 'unknown change'
}

function whereText({
  shadow_all: isShadowAll,
  policy,
  rule,
  values,
}: Pick<OverrideJson, 'shadow_all' | 'policy' | 'rule' | 'values'>): string {
  if (isShadowAll) return 'all policies'
  const caller = values === undefined || values === null ? 'all callers' : callerText(values)
  return `policy ${policy}, rule ${rule}, ${caller}`
}

function* notesOf({ id, durable, in_force: isInForce, streams }: OverrideJson): Generator<string> {
  if (!isInForce) yield 'not in force: its rule is not in the active bundle, or cannot be changed this way'
  if (!durable) yield 'will not survive a restart: it is not saved in a state file or in Redis'
  if (streams) yield streamsText(streams)
  if (streams && !streams.cut) yield `to end those of the blocked callers: edge override --edit ${id} --cut-streams --reason TEXT`
}

function streamsText({ open, cut }: OpenStreamsJson): string {
  const count = `${countText(open, 'stream')} of all callers ${open === 1 ? 'was' : 'were'} open at this instance`
  return cut ? `open streams of the blocked callers are cut; ${count}` : `open streams go on until they end; ${count}`
}

function coverageText(preview: OverridePreviewJson): string {
  const { callers, policies, decided_last_minute: decided } = preview.covers
  if (decided === null) return `all policies (${numberText(policies)} in the bundle): nothing is enforced`
  const activity = `this instance decided ${countText(decided, 'request')} by the policy in the last minute`
  return callers === 'all' ? `${whereText(preview)}; ${activity}` : whereText(preview)
}

const EFFECTS: Readonly<Record<string, string>> = { no_limit: 'no limit', blocks: 'blocked' }

/** A row for each of the rule's counters, such as `60 requests per minute → 120 requests per minute`. */
function limitRows({ before, after }: OverridePreviewJson): Rows {
  if (before === null || after === null) return []
  const counters = before.limits.length >= after.limits.length ? before.limits : after.limits
  const word = (effect: RuleEffectJson, c: number): string => effect.limits[c]?.text ?? EFFECTS[effect.effect] ?? effect.effect
  if (counters.length === 0) return [['limit', `${word(before, 0)} → ${word(after, 0)}`]]
  return counters.map(({ kind }, c) => [kind, `${word(before, c)} → ${word(after, c)}`])
}
