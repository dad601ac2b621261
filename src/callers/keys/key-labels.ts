import { isAllSeen } from '../../text/printable.ts'
import { show } from '../../text/problem.ts'
import type { KeyLabels } from './issued-key.ts'
import { sortedLabels } from './issued-key.ts'

const MAX_LABELS = 32
const MAX_CHARACTERS = 256
/** As in a bundle. */
const NAME = /^[A-Za-z0-9._-]{1,64}$/
/** `caller:id` is the identity, `GET keys` has parameters named `after` and `limit`, and an object cannot have the last one as its own. */
const OTHER_NAMES = ['id', 'after', 'limit', '__proto__']

/** Reads the labels of a key. Returns a sentence if they cannot be used. */
export function readKeyLabels(value: unknown): KeyLabels | string {
  if (value === undefined) return 'labels: missing. Expected an object of texts, such as {"team":"search"}'
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `labels: expected an object of texts, got ${show(value)}`
  const entries = Object.entries(value)
  if (entries.length === 0) return 'labels: expected at least one label, such as {"team":"search"}'
  if (entries.length > MAX_LABELS) return `labels: expected at most ${MAX_LABELS}, got ${entries.length}`
  for (const [name, text] of entries) {
    const problem = labelNameProblem(name) ?? labelValueProblem(name, text)
    if (problem !== undefined) return problem
  }
  return sortedLabels(value as KeyLabels)
}

export function labelNameProblem(name: string): string | undefined {
  if (NAME.test(name) && !OTHER_NAMES.includes(name)) return undefined
  return `labels: expected a name of 1 to 64 letters, digits, ".", "_" or "-", other than "id", "after" and "limit", got ${show(name)}`
}

function labelValueProblem(name: string, value: unknown): string | undefined {
  if (typeof value !== 'string') return `labels.${name}: expected a text, got ${show(value)}`
  if (value === '') return `labels.${name}: expected a text, got an empty one`
  if (value.length > MAX_CHARACTERS) return `labels.${name}: expected at most ${MAX_CHARACTERS} characters, got ${value.length}`
  return isAllSeen(value) ? undefined : `labels.${name}: expected printable characters only, got ${show(value)}`
}
