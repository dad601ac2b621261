import { printableText, quoted } from './formats.ts'

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
