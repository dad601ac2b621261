import { printableText, quoted } from './printable.ts'

/** An error or a warning about one part of a bundle. */
export interface Problem {
  /** A path such as `policies[2].spec.rules[0].name`; empty for the whole bundle. */
  readonly path: string
  readonly message: string
  /** The path of what the message is about, where that is more exact than `path`. Only its position is shown. */
  readonly at?: string
  /** Where it is in the text, from 1; undefined where that is not known, and until it was looked for. */
  readonly line?: number
  readonly column?: number
  /** Set for a warning that `edge validate` treats as an error. The service only warns, because the release before accepted it. */
  readonly isRefusedBeforeUse?: true
  /** Set for a warning that operators see as a problem for as long as the bundle is active. */
  readonly isProblem?: true
}

export type Path = readonly PropertyKey[]

/** Formats a problem on one line, with its position in the text, whatever the bundle contains. */
export function formatProblem(problem: Problem): string {
  const text = problemText(problem)
  if (problem.line === undefined) return text
  const position = `line ${problem.line}, column ${problem.column}`
  // What the readers of JSON and YAML say has it.
  return problem.message.includes(position) ? text : `${text} (${position})`
}

/** A line about a file, as compilers print it and editors follow it: `limits.yaml:41:9: error: policies[0].id: …`. */
export function problemLine(file: string, kind: string, problem: Problem): string {
  const position = problem.line === undefined ? '' : `:${problem.line}:${problem.column}`
  return printableText(`${file}${position}: ${kind}: ${problemText(problem)}`)
}

/** The problem without its position. */
function problemText({ path, message }: Problem): string {
  return printableText(path === '' ? message : `${path}: ${message}`)
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

const STEP = /\.?([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/y

/** The path that `formatPath` made this text of, up to the first step that it does not write. */
export function parsePath(text: string): Path {
  const path: (string | number)[] = []
  for (STEP.lastIndex = 0; STEP.lastIndex < text.length; ) {
    const [, name, index, quotedName] = STEP.exec(text) ?? []
    if (name !== undefined) path.push(name)
    else if (index !== undefined) path.push(Number(index))
    else if (quotedName !== undefined) path.push(JSON.parse(quotedName) as string)
    else break
  }
  return path
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
