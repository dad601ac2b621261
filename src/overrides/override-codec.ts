import type { Override, OverrideChange, OverrideSubject } from './override.ts'
import type { OverrideEntry } from './override-entry.ts'

/** Of an entry as text, in UTF-8. */
export const MAX_ENTRY_BYTES = 4096

const VERSION = 1

/** An entry as JSON, on one line. */
export function encodeEntry(entry: OverrideEntry): string {
  const { kind, momentMs, forgetMs } = entry
  const times = { v: VERSION, moment: momentMs, forget: forgetMs }
  if (kind === 'ended') {
    const { id, subject, actor, reason } = entry
    return JSON.stringify({ ...times, ended: id, subject, actor, reason })
  }
  const { id, subject, change, sinceMs, untilMs, createdMs, actor, reason } = entry.override
  return JSON.stringify({ ...times, id, subject, change, since: sinceMs, until: untilMs, created: createdMs, actor, reason })
}

/** Undefined for anything that this program would not have written: damaged, or from a newer one. Never throws. */
export function decodeEntry(text: string): OverrideEntry | undefined {
  if (text.length > MAX_ENTRY_BYTES) return undefined
  const members = objectOf(text)
  if (members?.['v'] !== VERSION) return undefined
  const { moment: momentMs, forget: forgetMs, ended, actor, reason } = members
  const subject = decodeSubject(members['subject'])
  if (!isTime(momentMs) || !isTime(forgetMs) || subject === undefined || !isText(actor) || !isText(reason)) return undefined
  if (ended !== undefined) return isText(ended) ? { kind: 'ended', momentMs, forgetMs, id: ended, subject, actor, reason } : undefined
  const override = decodeOverride(members, { subject, actor, reason })
  return override && { kind: 'set', momentMs, forgetMs, override }
}

/** Whether it is an entry that a newer program has written. */
export function isNewerEntry(text: string): boolean {
  const version = objectOf(text)?.['v']
  return typeof version === 'number' && version > VERSION
}

function decodeOverride(members: Members, known: Pick<Override, 'subject' | 'actor' | 'reason'>): Override | undefined {
  const { id, since: sinceMs, until: untilMs, created: createdMs } = members
  const change = decodeChange(members['change'])
  if (!isText(id) || !isTime(sinceMs) || !isTime(untilMs) || !isTime(createdMs) || change === undefined) return undefined
  if ((known.subject === 'all_policies') !== (change.kind === 'shadow')) return undefined
  return { id, ...known, change, sinceMs, untilMs, createdMs }
}

function decodeSubject(value: unknown): OverrideSubject | undefined {
  if (value === 'all_policies') return value
  if (!isObject(value)) return undefined
  const { policy, rule, values } = value
  if (!isText(policy) || !isText(rule)) return undefined
  if (values === undefined) return { policy, rule, values }
  return isObject(values) && Object.values(values).every(isText) ? { policy, rule, values: values as Record<string, string> } : undefined
}

function decodeChange(value: unknown): OverrideChange | undefined {
  if (!isObject(value)) return undefined
  const { kind, factor, fields } = value
  if (kind === 'multiply') return typeof factor === 'number' && factor > 0 ? { kind, factor } : undefined
  if (kind === 'set') return isObject(fields) ? { kind, fields } : undefined
  return kind === 'unlimited' || kind === 'block' || kind === 'shadow' ? { kind } : undefined
}

type Members = Readonly<Record<string, unknown>>

function objectOf(text: string): Members | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** As dates can have it. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15
}
