import type { OverrideJson } from '../../admin/api/types.ts'
import { callerText } from './caller-values.ts'
import { listText } from './table.ts'

/** An override in some lines. */
export function overrideText(override: OverrideJson): string {
  const { id, until, actor, reason, created_at: createdAt } = override
  const rows: [string, string][] = [
    ['change', changeText(override)],
    ['where', whereText(override)],
    ['until', until],
    ['by', `${actor}, ${createdAt}`],
    ['reason', reason],
  ]
  for (const note of notesOf(override)) rows.push(['note', note])
  return `${id}\n${listText(rows)}`
}

/** What it changes, in a few words. */
function changeText({ multiply, set, unlimited, block, shadow_all: isShadowAll }: OverrideJson): string {
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
