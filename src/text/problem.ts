import { printableText, quoted } from './formats.ts'

/** An error or a warning about one part of a bundle. */
export interface Problem {
  /** A path such as `policies[2].spec.rules[0].name`; empty for the whole bundle. */
  readonly path: string
  readonly message: string
}

export type Path = readonly PropertyKey[]

/** Formats a problem on one line, whatever the bundle contains. */
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

/** Returns a value as a message quotes it, shortened if it is long. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value)
  const text = value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value
  return quoted(text)
}

/*
 * These functions read data that may be invalid: a member that is missing, or has the wrong type, reads as undefined or as an empty list.
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
