import type { z } from 'zod'
import { describeIssue } from '../../policy/parse.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { formatPath, type Path, type Problem, parsePath, show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { positionsOf } from '../../text/text-positions.ts'
import { type Excess, readYaml, ValueCounter } from '../../text/yaml-document.ts'
import { type Case, caseSchema, durationMs, timesOf } from './case-schema.ts'

/** A case and the line where it begins. */
export interface FoundCase extends Case {
  readonly line: number | undefined
}

export type ReadCases = { readonly cases: readonly FoundCase[] } | { readonly problems: readonly Problem[] }

export const MAX_CASES_BYTES = 16 * 1024 ** 2
/** Bound on the requests of all steps of a file together. A million take a few seconds. */
const MAX_REQUESTS = 10_000_000
const MAX_VALUES = 1_000_000
const MAX_PROBLEMS = 100
const MAX_PATH_CHARACTERS = 200

const EXCESS: Record<Excess, string> = {
  part: `it has more than ${MAX_VALUES} values`,
  total: `it has more than ${MAX_VALUES} values`,
  endless: 'it contains itself through an alias',
}

/** Reads a file of cases, in YAML or JSON, and reports everything that is wrong with it. Never throws, whatever the text. */
export function readCases(text: string): ReadCases {
  const source = text.startsWith('\ufeff') ? text.slice(1) : text
  if (source.trim() === '') return refuse('it is empty: expected a list of cases')
  const read = readYaml(source)
  if ('syntax' in read) return refuse(read.syntax)
  const excess = new ValueCounter(MAX_VALUES).add(read.value)
  if (excess !== undefined) return refuse(EXCESS[excess])
  if (!Array.isArray(read.value)) return refuse(`expected a list of cases, got ${show(read.value)}`)
  if (read.value.length === 0) return refuse('it has no cases')
  const { cases, problems } = checkCases(read.value)
  const isGood = problems.length === 0
  const places = positionsOf(source, 'yaml', isGood ? cases.map((_, i) => [i]) : problems.map(({ path }) => parsePath(path)))
  if (isGood) return { cases: cases.map((found, i) => ({ ...found, line: places[i]!.line })) }
  return { problems: problems.map(({ path, message }, i) => ({ path: shortened(path), message, ...(path !== '' && places[i]) })) }
}

function checkCases(items: readonly unknown[]): { readonly cases: Case[]; readonly problems: Problem[] } {
  const cases: Case[] = []
  const problems: Problem[] = []
  let requests = 0
  for (const [i, item] of items.entries()) {
    if (problems.length >= MAX_PROBLEMS) break
    const result = caseSchema.safeParse(item)
    if (result.success) cases.push(result.data)
    else for (const issue of innermost(result.error.issues)) addFew(problems, problemsOf({ ...issue, path: [i, ...issue.path] }, items))
    addFew(problems, reservedNames(item, [i]))
    addFew(problems, lateSteps(result.data, [i]))
    for (const step of result.data?.steps ?? []) requests += timesOf(step)
    if (requests > MAX_REQUESTS) {
      problems.push({ path: formatPath([i]), message: `with this case there are more than ${MAX_REQUESTS} requests in the file` })
      break
    }
  }
  if (problems.length >= MAX_PROBLEMS) problems.push({ path: '', message: 'there may be more' })
  return { cases, problems: problems.slice(0, MAX_PROBLEMS + 1) }
}

/** Leaves out what is said of a whole if something is said of its parts: it may only follow from that. */
function innermost(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  const isBelow = (path: Path, whole: Path): boolean => path.length > whole.length && whole.every((step, i) => path[i] === step)
  return issues.filter(({ code, path }) => code !== 'custom' || !issues.slice(0, MAX_PROBLEMS).some((other) => isBelow(other.path, path)))
}

function addFew(list: Problem[], more: Iterable<Problem>): void {
  if (list.length >= MAX_PROBLEMS) return
  for (const problem of more) if (list.push(problem) >= MAX_PROBLEMS) return
}

/** RFC 3339 cannot express later times. */
const END_MS = Date.UTC(10_000, 0)

function* lateSteps(found: Case | undefined, path: Path): Generator<Problem> {
  let atMs = found === undefined ? 0 : dateTimeMs(found.at)
  for (const [i, { after }] of (found?.steps ?? []).entries()) {
    atMs += durationMs(after)!
    if (atMs < END_MS) continue
    yield { path: formatPath([...path, 'steps', i, 'after']), message: 'expected a time before the year 10000' }
    return
  }
}

function* problemsOf(issue: z.core.$ZodIssue, data: unknown): Generator<Problem> {
  if (issue.code !== 'unrecognized_keys') return yield* describeIssue(issue, data)
  const known = knownFields(issue.path)
  for (const key of issue.keys) {
    const suggestion = closest(key, known)
    const hint = suggestion === undefined ? `: expected ${known.join(', ')}` : `: did you mean "${suggestion}"?`
    yield { path: formatPath([...issue.path, key]), message: `unknown field ${show(key)}${hint}` }
  }
}

/** Returns the fields of the object at this path in a list of cases. */
function knownFields(path: Path): readonly string[] {
  const step = caseSchema.shape.steps.element.shape
  switch (path.at(-1)) {
    case 'request':
      return Object.keys(step.request.shape)
    case 'caller':
      return Object.keys(step.request.shape.caller.unwrap().shape)
    case 'expect':
      return Object.keys(step.expect.unwrap().shape)
    case 'usage':
      return Object.keys(step.usage.unwrap().shape)
    default:
      return Object.keys(path.length === 1 ? caseSchema.shape : step)
  }
}

/** The schema reports all unknown names but this one, which it drops silently. */
function* reservedNames(value: unknown, path: Path): Generator<Problem> {
  if (typeof value !== 'object' || value === null) return
  for (const name of Object.keys(value)) {
    if (name === '__proto__') yield { path: formatPath([...path, name]), message: 'unknown field "__proto__"' }
    else yield* reservedNames((value as Record<string, unknown>)[name], [...path, Array.isArray(value) ? Number(name) : name])
  }
}

/** Shortens a path, because a name in it may be as long as the file. */
function shortened(path: string): string {
  return path.length > MAX_PATH_CHARACTERS ? `${path.slice(0, MAX_PATH_CHARACTERS)}…` : path
}

function refuse(message: string): ReadCases {
  return { problems: [{ path: '', message }] }
}
