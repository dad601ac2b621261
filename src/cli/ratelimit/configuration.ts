import { boolCoreTag, FAILSAFE_SCHEMA, mergeTag, nullCoreTag, Schema } from 'js-yaml'
import { z } from 'zod'
import { describeIssue } from '../../policy/parse.ts'
import { formatPath, type Path, type Problem, show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { readYaml, ValueCounter } from '../../text/yaml-document.ts'

/** A configuration file of envoyproxy/ratelimit. */
export interface Configuration {
  readonly domain: string
  readonly descriptors: readonly Entry[]
}

/** A descriptor of the configuration. */
export interface Entry {
  readonly key: string
  /** If undefined, the entry is for all values that no other entry of the key has. */
  readonly value: string | undefined
  readonly limit: ConfiguredLimit | undefined
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly isShared: boolean
  readonly hasOwnMetric: boolean
  readonly hasMetadata: boolean
  readonly entries: readonly Entry[]
  /** Position in the file. */
  readonly path: Path
}

export interface ConfiguredLimit {
  /** Undefined if unlimited. */
  readonly unit: Unit | undefined
  readonly requests: number
  readonly name: string | undefined
  readonly isReplacing: boolean
}

const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'] as const
export type Unit = (typeof UNITS)[number]

export type ReadConfiguration = { readonly configuration: Configuration } | { readonly problems: readonly Problem[] }

/** Enough for about 100,000 descriptors. An alias counts each time it is used. */
const MAX_VALUES = 1_000_000
const MAX_PROBLEMS = 100

export function readConfiguration(text: string): ReadConfiguration {
  const read = readYaml(text, AS_WRITTEN)
  if ('syntax' in read) return refuse(read.syntax)
  const excess = new ValueCounter(MAX_VALUES).add(read.value)
  if (excess !== undefined)
    return refuse(excess === 'endless' ? 'it contains itself through an alias' : `it has more than ${MAX_VALUES} values`)
  const parsed = configurationSchema.safeParse(read.value)
  if (!parsed.success) return { problems: parsed.error.issues.flatMap((issue) => describe(issue, read.value)).slice(0, MAX_PROBLEMS) }
  const configuration = { domain: parsed.data.domain, descriptors: entriesOf(parsed.data.descriptors, ['descriptors']) }
  const problems = [...repeatedEntries(configuration.descriptors)].slice(0, MAX_PROBLEMS)
  return problems.length > 0 ? { problems } : { configuration }
}

/** Reads numbers as text, so that the value 007 keeps its three characters. */
const AS_WRITTEN = new Schema([...FAILSAFE_SCHEMA.tags, nullCoreTag, boolCoreTag, mergeTag])

const TEXT = 'a text'
const text = z.union([z.string(), z.boolean().transform(String)], { error: TEXT })
const optionalText = text.nullish().transform((value) => value || undefined)
const required = (error: string) => z.union([z.string().min(1, { error }), z.boolean().transform(String)], { error })

const FLAG = 'true or false'
const flag = z
  .union(
    [z.boolean(), z.stringFormat('flag', /^(y|yes|on|n|no|off)$/i, { error: FLAG }).transform((word) => /^[yo]n?(es)?$/i.test(word))],
    {
      error: FLAG,
    },
  )
  .nullish()
  .transform((value) => value ?? false)

const MAX_REQUESTS = 2 ** 32 - 1
const REQUESTS = `a whole number of requests, from 0 to ${MAX_REQUESTS}`
const requests = z
  .string({ error: REQUESTS })
  .regex(/^\d{1,10}$/, { error: REQUESTS })
  .transform(Number)
  .refine((count) => count <= MAX_REQUESTS, { error: REQUESTS })

const UNIT = `a unit, one of ${UNITS.join(', ')}`

const limitSchema = z
  .strictObject(
    {
      unit: text.nullish().transform((unit) => unit?.toLowerCase()),
      requests_per_unit: requests.nullish(),
      unlimited: flag,
      name: optionalText,
      metadata: z.unknown().optional(),
      replaces: z.array(z.strictObject({ name: required(TEXT) }, { error: 'an object with name' }), { error: 'a list' }).nullish(),
    },
    { error: 'an object' },
  )
  .refine(({ unit, unlimited }) => unlimited || isUnit(unit), { path: ['unit'], error: UNIT })
  .refine(({ name, replaces }) => !replaces?.some((other) => other.name === (name ?? '')), {
    path: ['replaces'],
    error: 'names of other limits than its own',
  })
  .refine(({ unit, unlimited }) => !unlimited || !unit, { path: ['unit'], error: 'no unit together with unlimited' })

const entrySchema = z
  .strictObject(
    {
      key: required('the key of a descriptor'),
      value: optionalText,
      rate_limit: limitSchema.nullish(),
      shadow_mode: flag,
      quota_mode: flag,
      share_threshold: flag,
      detailed_metric: flag,
      value_to_metric: flag,
      metadata: z.unknown().optional(),
      get descriptors(): z.ZodType<WrittenEntry[] | null | undefined> {
        return z.array(entrySchema, { error: 'a list of descriptors' }).nullish()
      },
    },
    { error: 'a descriptor (an object)' },
  )
  .refine(({ value, share_threshold }) => !share_threshold || value?.includes('*'), {
    path: ['share_threshold'],
    error: 'a value with * in the same descriptor',
  })

interface WrittenEntry {
  readonly key: string
  readonly value: string | undefined
  readonly rate_limit?: z.output<typeof limitSchema> | null | undefined
  readonly shadow_mode: boolean
  readonly quota_mode: boolean
  readonly share_threshold: boolean
  readonly detailed_metric: boolean
  readonly value_to_metric: boolean
  readonly metadata?: unknown
  readonly descriptors?: readonly WrittenEntry[] | null | undefined
}

const configurationSchema = z.strictObject(
  {
    domain: required('the name of a domain'),
    descriptors: z.array(entrySchema, { error: 'a list of descriptors' }).nullish(),
  },
  { error: 'an object with domain and descriptors' },
)

const FIELDS = [...Object.keys(configurationSchema.shape), ...Object.keys(entrySchema.shape), ...Object.keys(limitSchema.shape)]

function isUnit(unit: string | undefined): unit is Unit {
  return (UNITS as readonly (string | undefined)[]).includes(unit)
}

function entriesOf(written: readonly WrittenEntry[] | null | undefined, path: Path): Entry[] {
  return (written ?? []).map((entry, i) => ({
    key: entry.key,
    value: entry.value,
    limit: entry.rate_limit ? limitOf(entry.rate_limit) : undefined,
    isShadow: entry.shadow_mode,
    isQuota: entry.quota_mode,
    isShared: entry.share_threshold,
    hasMetadata: !isNothing(entry.metadata) || !isNothing(entry.rate_limit?.metadata),
    hasOwnMetric: entry.detailed_metric || entry.value_to_metric,
    entries: entriesOf(entry.descriptors, [...path, i, 'descriptors']),
    path: [...path, i],
  }))
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null
}

function limitOf({ unit, requests_per_unit, unlimited, name, replaces }: z.output<typeof limitSchema>): ConfiguredLimit {
  return { unit: unlimited ? undefined : (unit as Unit), requests: requests_per_unit ?? 0, name, isReplacing: !!replaces?.length }
}

function* repeatedEntries(entries: readonly Entry[]): Generator<Problem> {
  const seen = new Map<string, Entry>()
  for (const entry of entries) {
    const id = JSON.stringify([entry.key, entry.value])
    const first = seen.get(id)
    if (first === undefined) seen.set(id, entry)
    else yield { path: formatPath(entry.path), message: `the same key and value as ${formatPath(first.path)}` }
    yield* repeatedEntries(entry.entries)
  }
}

function describe(issue: z.core.$ZodIssue, data: unknown): Problem[] {
  if (issue.code !== 'unrecognized_keys') return describeIssue(issue, data)
  return issue.keys.map((key) => ({ path: formatPath(issue.path), message: `unknown field ${show(key)}${hintFor(key)}` }))
}

function hintFor(key: string): string {
  if (FIELDS.includes(key)) return ', which does not belong here'
  const meant = closest(key, FIELDS)
  return meant === undefined ? '' : `: did you mean "${meant}"?`
}

function refuse(message: string): ReadConfiguration {
  return { problems: [{ path: '', message }] }
}
