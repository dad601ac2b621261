import type { z } from 'zod'
import { TOKEN } from '../text/formats.ts'
import { type Read, readJson } from '../text/json-document.ts'
import { formatPath, isObject, type Path, type Problem } from '../text/problem.ts'
import { type Excess, readYaml, ValueCounter } from '../text/yaml-document.ts'
import { isQuotable, mayHoldValue } from './descriptor-key.ts'
import { foundValue } from './limit-fields.ts'
import { findContradictions, findSurprises } from './review/review.ts'
import { findUnknownFields } from './review/unknown-fields.ts'
import { type Bundle, type BundleFormat, envelopeSchema, type Policy, policySchema, ruleFieldsSchema } from './schema/bundle.ts'

export type ParsedBundle =
  | { readonly ok: true; readonly bundle: Bundle; readonly warnings: readonly Problem[] }
  | {
      readonly ok: false
      readonly problems: readonly Problem[]
      readonly warnings: readonly Problem[]
      /** Undefined where it could not be read. */
      readonly version?: string
    }

/** Reads a bundle and names everything that is wrong with it. Never throws, whatever the text. */
export function parseBundle(text: string, format: BundleFormat = 'json'): ParsedBundle {
  const source = text.startsWith('\ufeff') ? text.slice(1) : text
  if (source.trim() === '') return refuse('it is empty')
  const data = format === 'json' ? readJson(source) : readYaml(source)
  if ('syntax' in data) return { ok: false, problems: [syntaxProblem(data, source, format)], warnings: [] }
  return checkBundle(data.value)
}

/** What is wrong with a text that cannot be parsed, and, if it is YAML under another name, what to do. */
function syntaxProblem({ syntax, ...position }: Extract<Read, { syntax: string }>, text: string, format: BundleFormat): Problem {
  const hint = format === 'json' && looksLikeYaml(text) ? ' (is it YAML? That needs a name that ends in .yaml or .yml)' : ''
  return { path: '', message: `${syntax}${hint}`, ...position }
}

/** By its first line that is not blank: a comment, the start of a document, an item of a list, or a name and a colon. */
function looksLikeYaml(text: string): boolean {
  const start = text.slice(text.search(/\S/)).slice(0, 200)
  return /^(?:#|---|%YAML|- |[\w.$-]+[ \t]*:(?:\s|$))/.test(start)
}

// A file can have a million errors, and aliases can expand a small file to a huge one. Ten thousand policies with
// two rules each have some 300,000 values.
const MAX_PROBLEMS = 1000
const MAX_VALUES = 2_500_000
const MAX_VALUES_IN_POLICY = 100_000

const EXCESS: Record<Excess, string> = {
  part: `expected at most ${MAX_VALUES_IN_POLICY} values in one policy`,
  total: `it has more than ${MAX_VALUES} values`,
  endless: 'it contains itself through an alias',
}

/** Checks the policies one by one, so that it can stop at a limit. */
function checkBundle(data: unknown): ParsedBundle {
  const counter = new ValueCounter(MAX_VALUES)
  const excess = counter.add(envelopeValues(data))
  if (excess !== undefined) return refuse(EXCESS[excess])
  const envelope = envelopeSchema.safeParse(data)
  const problems: Problem[] = []
  if (!envelope.success) addFew(problems, described(envelope.error.issues, [], data))
  const { errors, warnings } = findUnknownFields(envelopeSchema, data, [], MAX_PROBLEMS)
  addFew(problems, errors)
  const policies: Policy[] = []
  const looked: unknown[] = []
  for (const [index, item] of policiesIn(data).entries()) {
    if (problems.length >= MAX_PROBLEMS) break
    const path = ['policies', index]
    const excess = counter.add(item, MAX_VALUES_IN_POLICY)
    if (excess !== undefined) return refuse(EXCESS[excess], excess === 'total' ? '' : formatPath(path))
    looked.push(item)
    const result = policySchema.safeParse(item)
    if (result.success) policies.push(result.data)
    else addFew(problems, described(result.error.issues, path, data))
    const unknown = findUnknownFields(policySchema, item, path, MAX_PROBLEMS)
    addFew(problems, unknown.errors)
    addFew(warnings, unknown.warnings)
  }
  addFew(problems, findContradictions(looked, isObject(data) ? data : {}))
  if (problems.length >= MAX_PROBLEMS) problems.push({ path: '', message: `there may be more; these are the first ${MAX_PROBLEMS}` })
  if (!envelope.success) return { ok: false, problems, warnings }
  if (problems.length > 0) return { ok: false, problems, warnings, version: BigInt(envelope.data.bundle_version).toString() }
  const bundle = { ...envelope.data, policies }
  addFew(warnings, findSurprises(bundle))
  return { ok: true, bundle, warnings }
}

function* described(issues: readonly z.core.$ZodIssue[], path: Path, data: unknown): Generator<Problem> {
  for (const issue of issues) yield* describeIssue({ ...issue, path: [...path, ...issue.path] }, data)
}

function addFew(list: Problem[], more: Iterable<Problem>): void {
  if (list.length >= MAX_PROBLEMS) return
  for (const problem of more) if (list.push(problem) >= MAX_PROBLEMS) return
}

function policiesIn(data: unknown): readonly unknown[] {
  const policies = (data as { policies?: unknown } | null | undefined)?.policies
  return Array.isArray(policies) ? policies : []
}

/** Returns the values of a bundle other than its policies. */
function envelopeValues(data: unknown): readonly unknown[] {
  if (typeof data !== 'object' || data === null) return []
  return Object.entries(data).flatMap(([name, value]) => (name === 'policies' ? [] : [value]))
}

function refuse(message: string, path = ''): ParsedBundle {
  return { ok: false, problems: [{ path, message }], warnings: [] }
}

/** The schema's `error` texts say what was expected; this adds the path, what was found, and a suggestion. */
export function describeIssue(issue: z.core.$ZodIssue, data: unknown): Problem[] {
  const joined = joinedKey(issue.path, data)
  if (joined !== undefined) return [joined]
  if (issue.code === 'invalid_key') {
    const expected = issue.issues.map(({ message }) => message).join(', ')
    const key = String(issue.path.at(-1))
    return [
      {
        path: formatPath(issue.path.slice(0, -1)),
        message: `expected each key to be ${expected}, ${foundValue(key, expected, isInHeaders(issue.path) && !TOKEN.test(key))}`,
        at: formatPath(issue.path),
      },
    ]
  }
  const value = valueAt(data, issue.path)
  const problem = {
    path: formatPath(issue.path),
    message: `expected ${issue.message}, ${foundValue(value, issue.message, isSecret(issue.path) || isSecretUrl(issue.path, value))}`,
  }
  if (issue.code !== 'invalid_union') return [problem]
  if (issue.discriminator === undefined) return problemsInside(issue, data) ?? [problem]
  // If a rule's algorithm is unknown, zod does not check the rule any further, so the fields that all rules share are checked here.
  const rulePath = issue.path.slice(0, -1)
  const shared = ruleFieldsSchema.safeParse(valueAt(data, rulePath))
  const others = shared.success ? [] : shared.error.issues
  return [problem, ...others.flatMap((other) => describeIssue({ ...other, path: [...rulePath, ...other.path] }, data))]
}

/** Returns the problems inside the form of a value that was meant, such as the object where a number is allowed too. */
function problemsInside({ errors, path }: z.core.$ZodIssueInvalidUnion, data: unknown): Problem[] | undefined {
  const meant = errors.find((issues) => issues.every((issue) => issue.path.length > 0))
  return meant?.flatMap((issue) => describeIssue({ ...issue, path: [...path, ...issue.path] }, data))
}

/** Whether the path leads to a header text, or to patterns of a key whose values may be secrets. Problems are logged and shown. */
function isSecret(path: Path): boolean {
  const at = indexOfPatterns(path)
  return isInHeaders(path) || (at >= 0 && !isQuotable(String(path[at + 1])))
}

/** Whether the value is a URL in which somebody wrote a password or a key: whatever is where a URL belongs, and a URL wherever it is. */
function isSecretUrl(path: Path, value: unknown): boolean {
  if (typeof value !== 'string' || !/[@?#]/.test(value)) return false
  return URL_FIELDS.has(path.at(-1)!) || value.includes('://')
}

const URL_FIELDS = new Set<PropertyKey>(['url', 'jwks_url', 'jwks_file'])

/** Whether the path leads to a member of a backend's `headers`. */
function isInHeaders(path: Path): boolean {
  return path[0] === 'backends' && path[2] === 'headers' && path.length > 3
}

/** Where the path enters an object of keys and patterns; -1 if it does not. */
function indexOfPatterns(path: Path): number {
  return path.findIndex(
    (step, i) => (step === 'match' && typeof path[i - 1] === 'number') || (step === 'descriptors' && path[i - 1] === 'selector'),
  )
}

/** The problem of a key that has its value in it, as in `{ bearer:secret }`: for YAML that is a key without a value. It is not quoted, neither in the path. */
function joinedKey(path: Path, data: unknown): Problem | undefined {
  if (isInHeaders(path) && String(path[3]).includes(':')) {
    const message = 'expected the name of a header field, got one with a colon — is the space after it missing?'
    return { path: formatPath(path.slice(0, 3)), message, at: formatPath(path.slice(0, 4)) }
  }
  const at = indexOfPatterns(path)
  const keyPath = path.slice(0, at + 2)
  if (at < 0 || keyPath.length < at + 2 || valueAt(data, keyPath) !== null || !mayHoldValue(String(keyPath[at + 1]))) return undefined
  const message = 'expected a pattern for each key, got a key without one — is the space after its colon missing?'
  return { path: formatPath(path.slice(0, at + 1)), message, at: formatPath(keyPath) }
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data
  for (const step of path) value = (value as Record<PropertyKey, unknown> | undefined)?.[step]
  return value
}
