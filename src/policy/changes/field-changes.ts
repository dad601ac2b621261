import type { Lines } from './lines.ts'

/** A field such as `algorithm_config.burst`, before and after. Null: there was, or is, none. */
export interface FieldChange {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}

const MAX_CHARACTERS = 200
/** Shown before the place where two long texts begin to differ. */
const CONTEXT_CHARACTERS = 40

/** The fields that differ between two objects, or that one of them has alone. Those for which there is no room are only counted. */
export function fieldChanges(before: object | undefined, after: object | undefined, lines: Lines): FieldChange[] {
  const changes: FieldChange[] = []
  const note = (field: string, one: string | null, other: string | null): void => {
    if (one === other || !lines.take()) return
    const from = one === null || other === null ? 0 : firstDifference(one, other)
    changes.push({ field, before: excerpt(one, from), after: excerpt(other, from) })
  }
  const missing = new Map(fieldsOf(after ?? {}))
  for (const [field, text] of fieldsOf(before ?? {})) {
    note(field, text, missing.get(field) ?? null)
    missing.delete(field)
  }
  for (const [field, text] of missing) note(field, null, text)
  return changes
}

/** Lists are one field: which of their items is which, nobody knows. */
function* fieldsOf(value: object, path = ''): Generator<[field: string, text: string]> {
  for (const [name, member] of Object.entries(value)) {
    const field = path === '' ? name : `${path}.${name}`
    if (member === undefined) continue
    if (typeof member === 'object' && member !== null && !Array.isArray(member)) yield* fieldsOf(member, field)
    else yield [field, typeof member === 'string' ? member : JSON.stringify(member)]
  }
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
