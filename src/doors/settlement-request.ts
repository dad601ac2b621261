import type { Usage } from '../costs/cost.ts'
import { type TokenCounts, tokenCounts } from '../llm/usage.ts'
import { readRequestJson } from '../text/json-document.ts'
import { formatPath, show } from '../text/problem.ts'

/** A gateway's report about the end of a request. */
export interface SettlementRequest {
  readonly reservation: string
  /** Only renews what is in flight. */
  readonly isRenewal: boolean
  readonly usage: TokenCounts | undefined
  /** In units of the currency. */
  readonly cost: number | undefined
}

const FIELDS: readonly string[] = ['reservation', 'usage', 'cost', 'renew']
const USAGE_FIELDS: readonly string[] = [
  'prompt_tokens',
  'completion_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
]
/** Further fields of the chat API's own usage object, which a gateway may pass on unchanged. */
const PROVIDER_FIELDS: readonly string[] = ['total_tokens', 'prompt_tokens_details', 'completion_tokens_details']
const KNOWN_USAGE_FIELDS = [...USAGE_FIELDS, ...PROVIDER_FIELDS]
/** The largest budget that a rule can have (`MAX_BUDGET` in `costs/money`), in units of the currency. */
const MAX_COST = 9_000_000

/** Returns the settlement, or a sentence that says what is wrong with it. */
export function readSettlement(text: string): SettlementRequest | string {
  const read = readRequestJson(text)
  if ('syntax' in read) return `the body: ${read.syntax}`
  try {
    return settlementOf(read.value)
  } catch (error) {
    if (error instanceof BadField) return error.message
    throw error
  }
}

/** Returns the usage that a settlement reports: 'nothing' if it has neither token counts nor a cost. */
export function usageOf({ usage, cost }: SettlementRequest): Usage {
  if (usage === undefined && cost === undefined) return 'nothing'
  return { tokens: usage, cost, isStreamed: false }
}

/** Carries a sentence about the field as its message. */
class BadField extends Error {
  constructor(path: readonly string[], expected: string, found: unknown) {
    super(
      `${path.length === 0 ? 'the body' : formatPath(path)}: expected ${expected}, got ${found === undefined ? 'nothing' : show(found)}`,
    )
  }
}

function settlementOf(value: unknown): SettlementRequest {
  const { reservation, usage, cost, renew } = objectOf(value, [], FIELDS, 'an object with reservation')
  if (typeof reservation !== 'string' || reservation === '') {
    throw new BadField(['reservation'], 'the value of X-Edge-Reservation', reservation)
  }
  if (renew !== undefined && renew !== true) throw new BadField(['renew'], 'true (leave renew out to settle)', renew)
  if (renew === true && (usage !== undefined || cost !== undefined)) {
    throw new BadField(['renew'], 'neither usage nor cost with renew: a renewal does not settle', renew)
  }
  return {
    reservation,
    isRenewal: renew === true,
    usage: usage === undefined ? undefined : readUsage(usage),
    cost: cost === undefined ? undefined : costOf(cost),
  }
}

/** Cached tokens are part of the prompt, and those that are kept for an hour are part of what was written. */
function readUsage(value: unknown): TokenCounts {
  const usage = objectOf(value, ['usage'], KNOWN_USAGE_FIELDS, 'an object with prompt_tokens and completion_tokens')
  if (usage['prompt_tokens'] === undefined && usage['completion_tokens'] === undefined) {
    throw new BadField(['usage'], 'prompt_tokens or completion_tokens; leave usage out to give everything back', value)
  }
  const input = tokensOf(usage, 'prompt_tokens')
  const output = tokensOf(usage, 'completion_tokens')
  const cachedInput = tokensOf(usage, 'cached_tokens')
  const cacheWrite = tokensOf(usage, 'cache_write_tokens')
  const cacheWrite1h = tokensOf(usage, 'cache_write_1h_tokens')
  if (cachedInput > input) {
    throw new BadField(['usage', 'cached_tokens'], `no more than prompt_tokens (${input}), which includes them`, cachedInput)
  }
  if (cachedInput + cacheWrite > input) {
    const expected = `no more than prompt_tokens (${input}) without cached_tokens (${cachedInput})`
    throw new BadField(['usage', 'cache_write_tokens'], expected, cacheWrite)
  }
  if (cacheWrite1h > cacheWrite) {
    const expected = `no more than cache_write_tokens (${cacheWrite}), which includes them`
    throw new BadField(['usage', 'cache_write_1h_tokens'], expected, cacheWrite1h)
  }
  return tokenCounts(input, output, { cachedInput, cacheWrite, cacheWrite1h })
}

/** A field that is missing may be among the details of OpenAI's usage object; otherwise it is 0. */
function tokensOf(usage: Readonly<Record<string, unknown>>, name: string): number {
  const details = usage['prompt_tokens_details']
  const detail = typeof details === 'object' && details !== null ? (details as Record<string, unknown>)[name] : undefined
  const value = usage[name] === undefined ? (detail ?? undefined) : usage[name]
  if (value === undefined) return 0
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw new BadField(['usage', name], `a whole number of at least 0`, value)
}

function costOf(value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= MAX_COST) return value
  throw new BadField(['cost'], `a number from 0 to ${MAX_COST}, in units of the currency`, value)
}

function objectOf(value: unknown, path: readonly string[], fields: readonly string[], expected: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new BadField(path, expected, value)
  for (const name of Object.keys(value)) {
    if (!fields.includes(name)) throw new BadField(path, `only ${fields.join(', ')}`, name)
  }
  // JSON.parse makes `__proto__` an own property, so the check above refuses it.
  return value as Record<string, unknown>
}
