import { z } from 'zod'
import { parseDescriptorKey } from './descriptor-key.ts'
import { isHostPattern } from './host.ts'

/**
 * The one description of a bundle: its types, its validation and `schema/bundle.schema.json` all come from here.
 * Each `error` completes the sentence "expected …".
 */

// RFC 9651: structured fields, and so the RateLimit header, carry integers of at most 15 digits.
const MAX_TOKENS = 999_999_999_999_999

const label = z
  .string({ error: 'a string of 1 to 256 printable ASCII characters' })
  .regex(/^[\x20-\x7e]{1,256}$/, { error: 'a string of 1 to 256 printable ASCII characters' })

const tokens = (what: string) =>
  z
    .int({ error: `${what}, a whole number from 1 to ${MAX_TOKENS}` })
    .min(1, { error: `${what}, a whole number from 1 to ${MAX_TOKENS}` })
    .max(MAX_TOKENS, { error: `${what}, a whole number from 1 to ${MAX_TOKENS}` })

const flag = (description: string) => z.boolean({ error: 'true or false' }).meta({ description })

/** Notes of the operator, on a bundle, a policy or a rule. Not kept: nothing may depend on them. */
export const metadataSchema = z.object({}, { error: 'an object' })

const metadata = metadataSchema.optional().meta({ description: 'Your own notes; never read.' })

/** Fields that bundles carry for other programs: not read, and accepted with a warning. */
export const NOTE_NAMES = /^(?:issued_at|expires_at|name|description|labels)$|^[xX]-/

const PATH = 'a path that starts with /, without ? or #'
/** Each segment takes memory in each worker, and no request has longer paths. */
const MAX_PATH_CHARACTERS = 8192
const path = z
  .string({ error: PATH })
  .regex(/^\/[^?#]*$/, { error: PATH })
  .max(MAX_PATH_CHARACTERS, { error: `at most ${MAX_PATH_CHARACTERS} characters` })

export const selectorSchema = z
  .object(
    {
      pathPrefix: path.optional().meta({ description: 'Whole segments: /api covers /api and /api/x, not /apix.' }),
      pathExact: path.optional().meta({ description: 'Only this path.' }),
      methods: z
        .array(z.string({ error: 'an HTTP method' }).regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/, { error: 'an HTTP method' }), {
          error: 'a list of HTTP methods',
        })
        .min(1, { error: 'at least one method (leave `methods` out to cover all)' })
        .optional()
        .meta({ description: 'HTTP methods, in any case.' }),
      hosts: z
        .array(
          z
            .string({ error: 'a host name or *.name, without scheme or path' })
            .refine(isHostPattern, { error: 'a host name or *.name, without scheme or path' }),
          { error: 'a list of hosts' },
        )
        .min(1, { error: 'at least one host (leave `hosts` out to cover all)' })
        .optional()
        .meta({ description: 'Host names, in any case; *.example.com covers every subdomain. Ports are ignored.' }),
    },
    { error: 'an object' },
  )
  .refine((value) => value.pathPrefix === undefined || value.pathExact === undefined, {
    error: 'either pathPrefix or pathExact, not both',
  })
  .meta({ description: 'Which requests the policy covers; all of them when it is empty or absent.' })

const bucketConfig = z.object(
  {
    tokens_per_second: z
      .number({ error: 'a number above 0, in tokens per second (1.6667 is 100 a minute)' })
      .min(1e-9, { error: 'a number above 0 (at least 1e-9)' })
      .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
      .meta({ description: 'Refill rate; each request takes one token.' }),
    burst: z
      .number({ error: 'a number of at least 1' })
      .min(1, { error: 'a number of at least 1, because below 1 no request would ever pass' })
      .max(MAX_TOKENS, { error: `a number up to ${MAX_TOKENS}` })
      .meta({ description: 'Size of the bucket; it starts full.' }),
  },
  { error: 'an object with tokens_per_second and burst' },
)

export const streamingConfig = z.object(
  {
    enabled: flag('Count streamed responses; false lets them pass unread, and the reservation is kept.').default(true),
    enforce_mid_stream: flag('Cut a stream that exceeds max_completion_tokens; false only counts it.').default(true),
    buffer_tokens: tokens('tokens between two checks')
      .default(100)
      .meta({ description: 'Tokens between two checks; a stream may exceed its limit by this many.' }),
    on_limit_exceeded: z
      .enum(['graceful_close', 'error_chunk'], { error: '"graceful_close" or "error_chunk"' })
      .default('graceful_close')
      .meta({ description: 'How a cut stream ends: as if the model reached its token limit, or with an error.' }),
    include_partial_usage: flag('Add a usage object to each event and to the closing one.').default(true),
  },
  { error: 'an object' },
)

const llmConfig = z
  .object(
    {
      tokens_per_minute: tokens('tokens').optional().meta({ description: 'Per-minute budget, refilled continuously.' }),
      tokens_per_day: tokens('tokens').optional().meta({ description: 'Budget for one UTC day.' }),
      burst_tokens: tokens('tokens').optional().meta({ description: 'Size of the minute bucket; default tokens_per_minute.' }),
      max_completion_tokens: tokens('tokens')
        .optional()
        .meta({ description: 'Upper bound of one completion: the most reserved for it, and where a stream is cut.' }),
      streaming: streamingConfig.prefault({}),
    },
    { error: 'an object with tokens_per_minute or tokens_per_day' },
  )
  .refine((value) => value.tokens_per_minute !== undefined || value.tokens_per_day !== undefined, {
    error: 'at least one of tokens_per_minute and tokens_per_day',
  })

const KEY_FORMS = 'bearer, jwt:<claim>, header:<name>, ip:address, ip:country, ip:type or ip:tor'

const ruleFields = {
  name: label.meta({ description: 'Unique in its policy. Shown in logs, metrics and debug headers.' }),
  limit_keys: z
    .array(
      z
        .string({ error: KEY_FORMS })
        .max(256, { error: 'at most 256 characters' })
        .refine((key) => parseDescriptorKey(key) !== undefined, { error: KEY_FORMS })
        .meta({ pattern: '^(bearer|jwt:.+|header:.+|ip:(address|country|type|tor))$' }),
      { error: 'a list of descriptor keys' },
    )
    .max(32, { error: 'at most 32 keys' })
    .meta({
      description: 'What identifies a caller. Each combination of values has its own bucket; an empty list is one bucket for everybody.',
    }),
  metadata,
}

/** What every rule has, whatever its algorithm. */
export const ruleFieldsSchema = z.object(ruleFields)

const ALGORITHMS = [
  z.object({ ...ruleFields, algorithm: z.literal('token_bucket'), algorithm_config: bucketConfig }),
  z.object({ ...ruleFields, algorithm: z.literal('token_bucket_llm'), algorithm_config: llmConfig }),
] as const

const ALGORITHM_NAMES = ALGORITHMS.map(({ shape }) => JSON.stringify(shape.algorithm.value)).join(' or ')

const rule = z.discriminatedUnion('algorithm', ALGORITHMS, {
  error: (issue) => (issue.code === 'invalid_union' ? ALGORITHM_NAMES : 'a rule (an object)'),
})

export const policySchema = z.object(
  {
    id: label.meta({ description: 'Unique in the bundle. Shown in the RateLimit header.' }),
    spec: z.object(
      {
        mode: z
          .enum(['enforce', 'shadow'], { error: '"enforce" or "shadow"' })
          .default('enforce')
          .meta({ description: 'enforce rejects; shadow only records what it would reject and changes no response.' }),
        selector: selectorSchema.optional(),
        rules: z.array(rule, { error: 'a list of rules' }),
      },
      { error: 'an object with rules' },
    ),
    metadata,
  },
  { error: 'a policy (an object)' },
)

const VERSION = 'a whole number, or a string of up to 30 digits'

/** A bundle, without checks of its policies. */
export const envelopeSchema = z.object(
  {
    $schema: z.string({ error: 'the URL of a JSON Schema' }).optional(),
    bundle_version: z
      .union([z.int({ error: VERSION }).min(0, { error: VERSION }), z.string({ error: VERSION }).regex(/^\d{1,30}$/, { error: VERSION })], {
        error: VERSION,
      })
      .meta({ description: 'Must increase with each published bundle.' }),
    policies: z.array(z.unknown(), { error: 'a list of policies' }),
    metadata,
  },
  { error: 'an object with bundle_version and policies' },
)

export const bundleSchema = envelopeSchema.extend({
  policies: z.array(policySchema).meta({ description: 'All policies that match a request are applied.' }),
})

export type Bundle = z.output<typeof bundleSchema>
export type Policy = z.output<typeof policySchema>
export type Selector = z.output<typeof selectorSchema>
export type Rule = Policy['spec']['rules'][number]
export type LlmConfig = z.output<typeof llmConfig>
