import { z } from 'zod'
import type { Reason } from '../../engine/reasons.ts'
import { backendName } from '../../policy/schema/backends.ts'
import { labelName } from '../../policy/schema/callers.ts'
import { label } from '../../policy/schema/parts.ts'
import { dateTimeMs, TOKEN } from '../../text/formats.ts'
import type { Path } from '../../text/problem.ts'

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

const DURATION = /^(\d{1,6}(?:\.\d{1,3})?|\d{1,15})(ms|s|m|h|d)$/

/** Returns undefined if the text is not a duration. */
export function durationMs(text: string): number | undefined {
  const [, count, unit] = DURATION.exec(text) ?? []
  return unit === undefined ? undefined : Number(count) * UNIT_MS[unit]!
}

/**
 * The only description of a file of cases: its types, its validation and `schema/cases.schema.json` are all derived from it. Each `error`
 * completes the sentence "expected …".
 */

const MAX_TIMES = 1_000_000
const DEFAULT_AT = '2026-01-01T00:00:00Z'

const ONE_LINE = 'a text of 1 to 200 characters'
const METHOD = 'a method such as GET'
const URI = 'a path such as /api/x?page=1, without spaces and control characters'
const HOST = 'the name of a host'
const VALUE = 'a text without control characters'
const LONG_NUMBER = 'a text, because a number keeps no more than 15 digits'
const TIME = 'a time such as 2026-01-31T12:00:00Z, from 1970 on'
const SPAN = 'a duration such as 500ms, 90s, 5m, 2h or 7d'
const TIMES = `a whole number from 1 to ${MAX_TIMES}`
const STATUS = 'a status such as 200 or 429'
const STATUSES = `${STATUS}, or a list with one for each request`
const TOKENS = 'a whole number of at least 0'
const MAX_COST = 9_000_000
const COST = `a number from 0 to ${MAX_COST}`
const USAGE = 'an object with prompt_tokens, completion_tokens or cost'

/** Reasons that a simulation can produce: it has no network, and always has a bundle and a store. */
const REASON_NAMES = [
  'all_rules_passed',
  'token_bucket_exceeded',
  'quota_exceeded',
  'tpm_exceeded',
  'tpd_exceeded',
  'budget_exceeded',
  'concurrency_exceeded',
  'blocked',
  'unknown_caller',
  'repeated_descriptor',
  'websocket_not_counted',
  'missing_original_host',
  'repeated_original_method',
  'repeated_original_uri',
  'repeated_original_host',
  'bad_request',
  'body_too_large',
  'model_not_replaceable',
] as const satisfies readonly Reason[]

// \p{Cc} is avoided, because editors may not understand it in a JSON Schema.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const LINE = /^[^\x00-\x1f\x7f-\x9f]*$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const TARGET = /^[^\s\x00-\x1f\x7f-\x9f]+$/

const name = z.string({ error: ONE_LINE }).min(1, { error: ONE_LINE }).max(200, { error: ONE_LINE })
const fieldName = z.string().regex(TOKEN, { error: 'the name of a header field' })
const fieldText = z.string({ error: VALUE }).regex(LINE, { error: VALUE })
const safeNumber = z.number().min(Number.MIN_SAFE_INTEGER, { error: LONG_NUMBER }).max(Number.MAX_SAFE_INTEGER, { error: LONG_NUMBER })
/** Scalars that YAML allows without quotes. */
const fieldScalar = z.union([fieldText, safeNumber, z.boolean()])

const CLAIMS = 'an object of claims and their values'

const claimsSchema = z.record(z.string(), z.unknown(), { error: CLAIMS }).check(({ value, issues }) => {
  for (const path of inexactNumbers(value, [])) issues.push({ code: 'custom', message: LONG_NUMBER, input: value, path: [...path] })
})

/** Yields the paths of numbers that a token would contain with other digits, or not at all. */
function* inexactNumbers(value: unknown, path: Path): Generator<Path> {
  if (typeof value === 'number' && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) yield path
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) yield* inexactNumbers(member, [...path, Array.isArray(value) ? Number(name) : name])
}

const CALLER = 'an object with id and labels'

const callerSchema = z.strictObject(
  {
    id: label.default('test').meta({ description: 'Such as okta:ada, or key:<id> for an issued key. The default is test.' }),
    labels: z.record(labelName, z.string({ error: 'a text' }).min(1, { error: 'a text' }), { error: 'an object of labels' }).default({}),
  },
  { error: CALLER },
)

const requestSchema = z
  .strictObject(
    {
      method: z.string({ error: METHOD }).regex(TOKEN, { error: METHOD }).default('GET').meta({ description: 'The default is GET.' }),
      uri: z.string({ error: URI }).regex(TARGET, { error: URI }).meta({ description: 'Path and query, as the client sends them.' }),
      host: z.string({ error: HOST }).regex(/^\S+$/, { error: HOST }).optional(),
      headers: z
        .record(fieldName, z.union([fieldScalar, z.array(fieldScalar)], { error: `${VALUE}, or a list of them` }), {
          error: 'an object of names and values',
        })
        .default({})
        .meta({ description: 'A list is a field that is sent several times. X-Forwarded-For gives the client address.' }),
      claims: claimsSchema.optional().meta({
        description:
          'The claims of a JWT that is sent in Authorization, without a signature, as if the gateway or callers.jwt had verified it.',
      }),
      caller: callerSchema
        .optional()
        .meta({ description: 'The verified caller, if the bundle has callers: id (caller:id) and labels (caller:<label>).' }),
      body: z.string({ error: 'a text' }).optional().meta({ description: 'Read only with --mode reverse_proxy, as in edge serve.' }),
    },
    { error: 'a request (an object with method and uri)' },
  )
  .refine(({ host, headers }) => linesOf(headers, 'host') + (host === undefined ? 0 : 1) <= 1, {
    path: ['host'],
    error: 'no host here, because headers has one too',
  })
  .refine(({ claims, headers }) => claims === undefined || linesOf(headers, 'authorization') === 0, {
    path: ['claims'],
    error: 'no claims here, because headers has an Authorization, and they are sent in one',
  })
  .refine(({ claims, caller }) => claims === undefined || caller === undefined, {
    path: ['caller'],
    error: 'either claims or caller, not both: callers.jwt makes a caller of the claims',
  })

function linesOf(headers: Readonly<Record<string, unknown>>, lowerName: string): number {
  return Object.entries(headers).flatMap(([name, value]) => (name.toLowerCase() === lowerName ? [value].flat() : [])).length
}

const tokens = z.int({ error: TOKENS }).min(0, { error: TOKENS })

const usageSchema = z
  .strictObject(
    {
      prompt_tokens: tokens.optional(),
      completion_tokens: tokens.optional(),
      cached_tokens: tokens.optional().meta({ description: 'Prompt tokens that were cached; prompt_tokens includes them.' }),
      cache_write_tokens: tokens
        .optional()
        .meta({ description: 'Prompt tokens that were written to a cache; prompt_tokens includes them.' }),
      cache_write_1h_tokens: tokens.optional().meta({ description: 'Those of cache_write_tokens that the cache keeps for an hour.' }),
      cost: z
        .number({ error: COST })
        .min(0, { error: COST })
        .max(MAX_COST, { error: COST })
        .optional()
        .meta({ description: 'For budgets by a given cost, in units of the currency.' }),
    },
    { error: USAGE },
  )
  .refine((usage) => Object.keys(usage).some((name) => !name.startsWith('cache')), {
    error: 'at least one of prompt_tokens, completion_tokens and cost',
  })
  .refine((usage) => (usage.cached_tokens ?? 0) <= (usage.prompt_tokens ?? 0), {
    path: ['cached_tokens'],
    error: 'no more than prompt_tokens, which includes them',
  })
  .refine((usage) => (usage.cached_tokens ?? 0) + (usage.cache_write_tokens ?? 0) <= (usage.prompt_tokens ?? 0), {
    path: ['cache_write_tokens'],
    error: 'no more than prompt_tokens without cached_tokens',
  })
  .refine((usage) => (usage.cache_write_1h_tokens ?? 0) <= (usage.cache_write_tokens ?? 0), {
    path: ['cache_write_1h_tokens'],
    error: 'no more than cache_write_tokens, which includes them',
  })

const status = z.int({ error: STATUS }).min(100, { error: STATUS }).max(599, { error: STATUS })

const expectSchema = z.strictObject(
  {
    status: z
      .union([status, z.array(status, { error: STATUSES }).min(1, { error: 'at least one status' })], { error: STATUSES })
      .optional()
      .meta({ description: 'One for all requests of the step, or a list with one for each.' }),
    reason: z
      .enum(REASON_NAMES, { error: `one of ${REASON_NAMES.map((reason) => JSON.stringify(reason)).join(', ')}` })
      .optional()
      .meta({
        description:
          'Reason of the last response. For an allowed request: all_rules_passed, or the reason for which a shadow policy would reject it.',
      }),
    policy: label.optional().meta({ description: 'Id of the policy that decided the last response.' }),
    rule: label.optional().meta({ description: 'Name of the rule that decided the last response.' }),
    backend: z.union([backendName, z.null()], { error: 'the name of a backend, or null if no route sends it to one' }).optional().meta({
      description:
        'Backend that the last request may be sent to first, by the routes of the bundle (in reverse_proxy; all count as healthy). null: none, because no route covers it or it is not allowed.',
    }),
    waits: z.boolean({ error: 'true or false' }).optional().meta({
      description:
        'Whether the last request would wait (wait_seconds, in reverse_proxy) before it is rejected. Requests of a case do not wait.',
    }),
    headers: z
      .record(fieldName, z.union([fieldScalar, z.null()], { error: `${VALUE}, or null for a field that must be absent` }), {
        error: 'an object of names and values',
      })
      .optional()
      .meta({ description: 'Header fields of the last response; others are not compared. null: the field must be absent.' }),
  },
  { error: 'an object with status, reason, policy, rule, backend, waits or headers' },
)

const stepSchema = z
  .strictObject(
    {
      after: z
        .string({ error: SPAN })
        .regex(DURATION, { error: SPAN })
        .default('0s')
        .meta({ description: 'How long after the previous step; for the first step, after the start of the case.' }),
      request: requestSchema,
      times: z.int({ error: TIMES }).min(1, { error: TIMES }).max(MAX_TIMES, { error: TIMES }).optional().meta({
        description: 'How often the request is sent, all at the same moment. The default is the number of expected statuses, or 1.',
      }),
      usage: usageSchema.optional().meta({ description: 'Actual usage of each allowed request, settled when the clock moves on.' }),
      expect: expectSchema.optional(),
    },
    { error: 'a step (an object with request and expect)' },
  )
  .superRefine(({ times, expect }, context) => {
    if (times === undefined || !Array.isArray(expect?.status) || expect.status.length === times) return
    context.addIssue({ code: 'custom', path: ['expect', 'status'], message: `${times} statuses, because times is ${times}` })
  })

export const caseSchema = z.strictObject(
  {
    name,
    at: z
      .string({ error: TIME })
      .refine((text) => dateTimeMs(text) >= 0, { error: TIME })
      .default(DEFAULT_AT)
      .meta({ description: `When the case starts. The default is ${DEFAULT_AT}.` }),
    steps: z
      .array(stepSchema, { error: 'a list of steps' })
      .min(1, { error: 'at least one step' })
      .refine((steps) => steps.length === 0 || steps.some((step) => Object.keys(step.expect ?? {}).length > 0), {
        error: 'at least one step that expects something',
      }),
  },
  { error: 'a case (an object with name and steps)' },
)

export type Case = z.output<typeof caseSchema>
export type Step = z.output<typeof stepSchema>
export type Expectation = z.output<typeof expectSchema>

/** Returns the JSON Schema for editors. */
export function casesJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(z.array(caseSchema).min(1), { target: 'draft-7', io: 'input' })
  return { ...schema, title: 'edge test cases', description: 'What a policy bundle is expected to do, for edge test.' }
}

/** Returns how many requests a step sends. */
export function timesOf({ times, expect }: Pick<Step, 'times' | 'expect'>): number {
  if (times !== undefined) return times
  return Array.isArray(expect?.status) ? expect.status.length : 1
}
