import { z } from 'zod'
import { formatPath, type Path, type Problem, show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { metadataSchema, NOTE_NAMES, policySchema } from '../schema/bundle.ts'
import { headerCostConfig } from '../schema/request-cost.ts'
import { streamingConfig } from '../schema/token-bucket-llm.ts'

export interface UnknownFields {
  readonly errors: Problem[]
  /** Fields that many bundles carry for other programs. */
  readonly warnings: Problem[]
}

/**
 * Finds fields that are not in the schema. If ignored, each could make a rule cover or reject more than its author meant. Returns at most
 * `limit` of each kind.
 */
export function findUnknownFields(schema: z.core.$ZodType, data: unknown, path: Path, limit: number): UnknownFields {
  const result: UnknownFields = { errors: [], warnings: [] }
  visit(schema, data, path, { ...result, limit })
  return result
}

interface Found extends UnknownFields {
  readonly limit: number
}

function visit(schema: z.core.$ZodType, value: unknown, path: Path, found: Found): void {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    visit(schema.unwrap(), value, path, found)
  } else if (schema instanceof z.ZodArray && Array.isArray(value)) {
    for (let i = 0; i < value.length && found.errors.length < found.limit; i++) visit(schema.element, value[i], [...path, i], found)
  } else if (schema instanceof z.ZodDiscriminatedUnion && isRecord(value)) {
    const option = schema.options.find((candidate) => candidate instanceof z.ZodObject && accepts(candidate, value))
    if (option) visit(option, value, path, found)
    else reportUnknown(value, Object.keys((schema.options[0] as z.ZodObject).shape), path, found)
  } else if (schema instanceof z.ZodUnion) {
    // At most one option of a union is an object, so no field is reported twice.
    for (const option of schema.options) visit(option, value, path, found)
  } else if (schema instanceof z.ZodRecord && isRecord(value)) {
    // The schema checks every key but this one, which it silently drops.
    if (Object.hasOwn(value, '__proto__'))
      found.errors.push({ path: formatPath(path), message: 'unknown field "__proto__"', at: formatPath([...path, '__proto__']) })
    for (const key of Object.keys(value)) if (key !== '__proto__') visit(schema.valueType, value[key], [...path, key], found)
  } else if (schema instanceof z.ZodObject && schema !== metadataSchema && isRecord(value)) {
    const known = Object.keys(schema.shape)
    const others = schema.def.catchall
    if (others === undefined) reportUnknown(value, known, path, found)
    else visit(z.record(z.string(), others), omit(value, known), path, found)
    for (const key of known) if (Object.hasOwn(value, key)) visit(schema.shape[key] as z.core.$ZodType, value[key], [...path, key], found)
  }
}

function accepts(option: z.ZodObject, value: Record<string, unknown>): boolean {
  return (option.shape['algorithm'] as z.ZodLiteral).safeParse(value['algorithm']).success
}

function reportUnknown(value: Record<string, unknown>, known: readonly string[], path: Path, found: Found): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    // A selector has no notes: any field in it was meant to narrow it.
    const isNote = NOTE_NAMES.test(key) && path.at(-1) !== 'selector'
    const list = isNote ? found.warnings : found.errors
    if (list.length >= found.limit) continue
    const hint = isNote ? ': it is ignored' : hintFor(key, known, path)
    list.push({ path: formatPath(path), message: `unknown field ${show(key)}${hint}`, at: formatPath([...path, key]) })
  }
}

function hintFor(key: string, known: readonly string[], path: Path): string {
  // Rules name a table of prices; outside of them, the tables themselves are meant.
  if (key === 'prices' && !path.includes('rules')) return ': it belongs at the top of the bundle'
  const way = OTHER_WAYS.find(([parent, names]) => (path.at(-1) === parent || path.at(-2) === parent) && names.test(key))
  if (way !== undefined) return `: ${way[2]}`
  if (STREAM_FIELDS.includes(key) && path.at(-1) === 'streaming') return ': only token_bucket_llm has it in its streaming, remove it'
  const place = PLACES.find(([, fields]) => fields.includes(key))
  // Beside `algorithm`, `limit` is a misplaced limit of a window, not a misspelling of `limit_keys`.
  const suggestion = place !== undefined && path.at(-2) === 'rules' ? undefined : closest(key, known)
  if (suggestion !== undefined) return `: did you mean "${suggestion}"?`
  if (place !== undefined) return place[0].startsWith(CONFIG_OF) ? configHint(key, path) : `: it belongs in ${place[0]}`
  // Beyond the next level, a suggestion would be a random guess.
  for (const [name, fields] of path.length === 2 || path.at(-1) === 'spec' ? PLACES.slice(0, 2) : []) {
    const misplaced = closest(key, fields)
    if (misplaced !== undefined) return `: did you mean "${misplaced}" in ${name}?`
  }
  return known.includes('metadata') ? ' (put your own notes into "metadata")' : ''
}

function configHint(key: string, path: Path): string {
  const places = PLACES.filter(([name, fields]) => name.startsWith(CONFIG_OF) && fields.includes(key))
  const algorithms = places.map(([name]) => name.slice(CONFIG_OF.length))
  if (path.at(-1) !== 'algorithm_config') return `: it belongs in ${CONFIG_OF}${algorithms.join(' or ')}`
  return `: only ${algorithms.join(' and ')} ${algorithms.length === 1 ? 'has' : 'have'} it`
}

/** What other programs have, by the place in a bundle where people write it, and how to say it here. */
const OTHER_WAYS: readonly (readonly [parent: string, names: RegExp, way: string])[] = [
  ['selector', /^path_?(?:regexp?|pattern|glob|template|suffix)$/i, 'paths have no patterns: write pathPrefix, and "path:<n>" in match'],
  [
    'selector',
    /^(?:headers?|quer(?:y|ies)|cookies?|claims?|jwt|ips?|countr(?:y|ies)|models?)$/i,
    'it reads paths, methods and hosts: write other conditions, such as "header:<name>", in match',
  ],
  [
    'rules',
    /^(?:when|if|conditions?|schedule|active|days|hours)$/i,
    'write conditions on requests in match; there are none on the time of day',
  ],
  [
    'algorithm_config',
    /^tokens_per_(?:hour|week|month|year)$/i,
    'there are token budgets by minute and by day; for another period, take a cost_budget, which counts money',
  ],
]

const CONFIG_OF = 'algorithm_config of '

const { spec: SPEC } = policySchema.shape
const RULES = SPEC.shape.rules.element.options

/** The parts of a policy and their fields, to say where a misplaced field belongs. */
const PLACES: readonly (readonly [place: string, fields: readonly string[]])[] = [
  ['spec', fieldsOf(SPEC)],
  ['spec.selector', fieldsOf(SPEC.shape.selector.unwrap())],
  ['a rule', fieldsOf(RULES[0]).filter((field) => field !== 'name' && field !== 'metadata')],
  ...RULES.map(({ shape }): [string, readonly string[]] => [
    `${CONFIG_OF}${shape.algorithm.value}`,
    fieldsOf(withoutDefault(shape.algorithm_config)),
  ]),
  // `enabled: false` on a policy or a rule is meant for that one, not for its streams.
  ['algorithm_config.streaming', fieldsOf(streamingConfig).filter((field) => field !== 'enabled')],
  ['algorithm_config.cost', fieldsOf(headerCostConfig)],
]

/** A budget of money has streaming too, with fewer fields. */
const STREAM_FIELDS = fieldsOf(streamingConfig)

function withoutDefault(schema: z.ZodObject | z.ZodPrefault<z.ZodObject>): z.ZodObject {
  return schema instanceof z.ZodPrefault ? schema.unwrap() : schema
}

function fieldsOf(schema: z.ZodObject): readonly string[] {
  return Object.keys(schema.shape)
}

function omit(value: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
