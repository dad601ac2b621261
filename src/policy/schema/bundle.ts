import { z } from 'zod'
import { backendsSchema, routesSchema } from './backends.ts'
import { blockConfig } from './block.ts'
import { callersSchema } from './callers.ts'
import { concurrencyConfig } from './concurrency.ts'
import { costBudgetConfig } from './cost-budget.ts'
import { fixedWindowConfig } from './fixed-window.ts'
import { ruleMatch } from './match.ts'
import { descriptorKey, label, unlimitedConfig } from './parts.ts'
import { pricesSchema } from './prices.ts'
import { routeSelector, selectorSchema } from './selector.ts'
import { tokenBucketConfig } from './token-bucket.ts'
import { tokenBucketLlmConfig } from './token-bucket-llm.ts'
import { usageSchema } from './usage.ts'

/**
 * The one description of a bundle: its types, its validation and `schema/bundle.schema.json` all come from here.
 * Each `error` completes the sentence "expected …".
 */

/** The operator's notes on a bundle, a policy or a rule. They are dropped, so that nothing can depend on them. */
export const metadataSchema = z.object({}, { error: 'an object' })

const metadata = metadataSchema.optional().meta({ description: 'Your own notes; edge ignores them.' })

/** Fields that bundles carry for other programs. They are ignored, with a warning. */
export const NOTE_NAMES = /^(?:issued_at|expires_at|name|description|labels)$|^[xX]-/

const ruleFields = {
  name: label.meta({ description: 'Unique in its policy. Shown in logs, metrics and debug headers.' }),
  limit_keys: z.array(descriptorKey, { error: 'a list of descriptor keys' }).max(32, { error: 'at most 32 keys' }).meta({
    description: 'What identifies a caller. Each combination of values has its own bucket; an empty list is one bucket for everybody.',
  }),
  match: ruleMatch.optional(),
  metadata,
}

/** Clients and load balancers give up on a request that waits much longer. */
const MAX_WAIT_SECONDS = 60
const MIN_WAIT_SECONDS = 0.1
const WAIT = `a number of seconds, from ${MIN_WAIT_SECONDS} to ${MAX_WAIT_SECONDS}`

const countedFields = {
  ...ruleFields,
  wait_seconds: z.number({ error: WAIT }).min(MIN_WAIT_SECONDS, { error: WAIT }).max(MAX_WAIT_SECONDS, { error: WAIT }).optional().meta({
    description:
      'In reverse_proxy: a request that only rules with wait_seconds reject, and that would pass within this time, waits instead of getting 429.',
  }),
}

/** Rules without counters have no callers to tell apart. */
const NO_KEYS = 'an empty list: a request that lacks the key would escape the rule; name the key in `match`'

const counterlessFields = {
  ...ruleFields,
  limit_keys: z.array(descriptorKey, { error: NO_KEYS }).max(0, { error: NO_KEYS }).default([]).meta({ description: 'Always empty.' }),
  wait_seconds: z.never({ error: 'nothing here: no request would pass such a rule later' }).optional(),
}

/** The fields that every rule has, whatever its algorithm. */
export const ruleFieldsSchema = z.object(countedFields)

const ALGORITHMS = [
  z.object({ ...countedFields, algorithm: z.literal('token_bucket'), algorithm_config: tokenBucketConfig }),
  z.object({ ...countedFields, algorithm: z.literal('fixed_window'), algorithm_config: fixedWindowConfig }),
  z.object({ ...countedFields, algorithm: z.literal('token_bucket_llm'), algorithm_config: tokenBucketLlmConfig }),
  z.object({ ...countedFields, algorithm: z.literal('cost_budget'), algorithm_config: costBudgetConfig }),
  z.object({ ...counterlessFields, algorithm: z.literal('unlimited'), algorithm_config: unlimitedConfig.prefault({}) }),
  z.object({
    ...counterlessFields,
    algorithm: z.literal('block'),
    algorithm_config: blockConfig.prefault({}),
    // Elsewhere this field is an ignored note; here, a block whose end is ignored would never end.
    expires_at: z.never({ error: 'nothing here: a block ends at algorithm_config.expires_at' }).optional(),
  }),
  z.object({ ...countedFields, algorithm: z.literal('concurrency'), algorithm_config: concurrencyConfig }),
] as const

const NAMES = ALGORITHMS.map(({ shape }) => JSON.stringify(shape.algorithm.value))
const ALGORITHM_NAMES = `${NAMES.slice(0, -1).join(', ')} or ${NAMES.at(-1)}`

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

/** A bundle whose policies are not checked yet. */
export const envelopeSchema = z.object(
  {
    $schema: z.string({ error: 'the URL of a JSON Schema' }).optional(),
    bundle_version: z
      .union([z.int({ error: VERSION }).min(0, { error: VERSION }), z.string({ error: VERSION }).regex(/^\d{1,30}$/, { error: VERSION })], {
        error: VERSION,
      })
      .meta({ description: 'Must increase with each published bundle.' }),
    prices: pricesSchema.optional(),
    callers: callersSchema.optional(),
    backends: backendsSchema.optional(),
    routes: routesSchema.optional(),
    usage: usageSchema.optional(),
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
export type Rule = Policy['spec']['rules'][number]

export type BundleFormat = 'json' | 'yaml'

/** Files named .yaml and .yml are YAML; everything else is JSON. */
export function formatOf(fileName: string): BundleFormat {
  return /\.ya?ml$/i.test(fileName) ? 'yaml' : 'json'
}

/** Returns the JSON Schema for editors. It rejects what the service refuses, and accepts fields that the service only warns about. */
export function bundleJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(bundleSchema, {
    target: 'draft-7',
    io: 'input',
    override({ jsonSchema, zodSchema }) {
      const schema = innermost(zodSchema)
      if (jsonSchema.type !== 'object' || schema === metadataSchema || hasAnyNames(schema)) return
      jsonSchema.additionalProperties = false
      if (schema !== selectorSchema && schema !== routeSelector) jsonSchema.patternProperties = { [NOTE_NAMES.source]: {} }
    },
  })
  return { ...schema, title: 'edge policy bundle' }
}

function innermost(schema: z.core.$ZodType): z.core.$ZodType {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault
    ? innermost(schema.unwrap())
    : schema
}

/** Whether the names of an object's members are chosen by those who write bundles. */
function hasAnyNames(schema: z.core.$ZodType): boolean {
  return schema instanceof z.ZodRecord || (schema instanceof z.ZodObject && schema.def.catchall !== undefined)
}
