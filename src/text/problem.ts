import { KEY_FORMS, meantKey } from '../policy/descriptor-key.ts'
import { printableText, quoted } from './formats.ts'
import { closest } from './suggest.ts'

/** An error or a warning about one place of a bundle. */
export interface Problem {
  /** Such as `policies[2].spec.rules[0].name`; empty for the whole bundle. */
  readonly path: string
  readonly message: string
}

export type Path = readonly PropertyKey[]

/** On one line, whatever somebody has put into a bundle. */
export function formatProblem(problem: Problem): string {
  return printableText(problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`)
}

export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z_$][\w$]*$/.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`
    else text += `[${quoted(String(step))}]`
  }
  return text
}

const SHOWN_CHARACTERS = 60

/** A value as a message quotes it, however long it is. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value)
  const text = value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value
  return quoted(text)
}

/*
 * Data that may be invalid: whatever is not there, or is not what it should be, reads as nothing.
 */

export function field(data: unknown, name: string): unknown {
  return isObject(data) ? data[name] : undefined
}

export function listIn(data: unknown, name: string): readonly unknown[] {
  const list = field(data, name)
  return Array.isArray(list) ? list : []
}

export function isObject(data: unknown): data is Record<string, unknown> {
  return typeof data === 'object' && data !== null
}

/** What was found in place of what was expected, with a suggestion where one is likely: the end of a sentence. */
export function foundValue(value: unknown, expected: string): string {
  if (value === undefined) return 'but it is missing'
  const got = `got ${show(value)}`
  if (typeof value === 'number' || typeof value === 'boolean') return expected.startsWith('a text') ? `${got} — put it in quotes?` : got
  if (typeof value !== 'string') return got
  if (expected.includes('number') && value.trim() !== '' && Number.isFinite(Number(value))) return `${got} — remove the quotes?`
  const choices = [...expected.matchAll(/"([^"]+)"/g)].map((match) => match[1]!)
  const suggestion = expected === KEY_FORMS ? meantKey(value) : closest(value, choices)
  return suggestion === undefined ? got : `${got} — did you mean "${suggestion}"?`
}
