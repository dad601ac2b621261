import { isCredential, parseDescriptorKey } from '../descriptor-key.ts'
import type { Lines } from './lines.ts'

/** A field such as `algorithm_config.burst`, before and after. Null: there was, or is, none. Of patterns for credentials only their number is told. */
export interface FieldChange {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}

const MAX_CHARACTERS = 200
/** Shown before the place where two long texts begin to differ. */
const CONTEXT_CHARACTERS = 40
const MATCH = 'match.'

/** The fields that differ between two objects, or that one of them has alone. Those for which there is no room are only counted. */
export function fieldChanges(before: object | undefined, after: object | undefined, lines: Lines): FieldChange[] {
  const changes: FieldChange[] = []
  const note = (field: string, one: unknown, other: unknown): void => {
    const [before, after] = [textOf(one), textOf(other)]
    if (before === after || !lines.take()) return
    const from = before === null || after === null ? 0 : firstDifference(before, after)
    if (holdsCredentials(field)) changes.push({ field, before: countText(one), after: countText(other) })
    else changes.push({ field, before: excerpt(before, from), after: excerpt(after, from) })
  }
  const missing = new Map(fieldsOf(after ?? {}))
  for (const [field, value] of fieldsOf(before ?? {})) {
    note(field, value, missing.get(field))
    missing.delete(field)
  }
  for (const [field, value] of missing) note(field, undefined, value)
  return changes
}

/** Lists are one field: which of their items is which, nobody knows. */
function* fieldsOf(value: object, path = ''): Generator<[field: string, value: unknown]> {
  for (const [name, member] of Object.entries(value)) {
    const field = path === '' ? name : `${path}.${name}`
    if (member === undefined) continue
    if (typeof member === 'object' && member !== null && !Array.isArray(member)) yield* fieldsOf(member, field)
    else yield [field, member]
  }
}

function textOf(value: unknown): string | null {
  if (value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Such as `match.cookie:sid`. */
function holdsCredentials(field: string): boolean {
  if (!field.startsWith(MATCH)) return false
  const key = parseDescriptorKey(field.slice(MATCH.length))
  return key !== undefined && isCredential(key.text)
}

function countText(patterns: unknown): string | null {
  if (patterns === undefined) return null
  return Array.isArray(patterns) && patterns.length !== 1 ? `${patterns.length} hidden patterns` : '1 hidden pattern'
}

function firstDifference(one: string, other: string): number {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  return at
}

/** Of a long text the part around `at`. */
function excerpt(text: string | null, at: number): string | null {
  if (text === null || text.length <= MAX_CHARACTERS) return text
  const from = Math.max(0, at - CONTEXT_CHARACTERS)
  const to = from + MAX_CHARACTERS
  return `${from > 0 ? '…' : ''}${text.slice(from, to)}${to < text.length ? '…' : ''}`
}
