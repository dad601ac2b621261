import { asksForTokens, type LlmRequest } from '../../llm/llm-request.ts'
import { isPlainPath } from '../../text/path.ts'

/** Whether a request only looks up, changes or ends an earlier result. Whatever usage that reports was charged to the request that caused it. */
export interface Lookup {
  /** Whether it does, whatever the response is. */
  readonly isLookup: boolean
  /** It does if the response has one of these ids. */
  readonly lookedUpIds: readonly string[]
}

const ALWAYS: Lookup = { isLookup: true, lookedUpIds: [] }
const NEVER: Lookup = { isLookup: false, lookedUpIds: [] }

/** Longer members that are not known may be the prompt of an API that is not known. */
const MAX_TOKENS_OF_NAMES = 64

/**
 * What follows the names of the things that report usage: an id, and nothing or `cancel`. Shorter ids may be guessed: some servers number their responses up
 * to a thousand. Other verbs may begin something whose response repeats the id.
 */
const LOOKUP = /\/(?:responses|chat\/completions|threads\/[^/]+\/runs|batches|interactions)\/([\w.:-]{16,128})(?:\/cancel)?$/

/**
 * A request without a prompt and a bound that is not a GET is a lookup if its path names an earlier result, and the response has that id. What is
 * generated has a new id, which no client can know when it writes its path.
 */
export function lookupOf({ method, target }: { readonly method: string; readonly target: string }, llm: LlmRequest): Lookup {
  if (method === 'GET' || method === 'HEAD') return asksForTokens(llm) ? NEVER : ALWAYS
  if (mayHavePrompt(llm) || llm.requestedTokens !== undefined || !isPlainPath(target)) return NEVER
  const id = LOOKUP.exec(target.split('?', 1)[0]!)?.[1]
  return id === undefined ? NEVER : { isLookup: false, lookedUpIds: [id] }
}

function mayHavePrompt({ hasPrompt, hasUnseenPrompt, promptTokens, isUnreadable, isUpload }: LlmRequest): boolean {
  return hasPrompt === true || hasUnseenPrompt === true || promptTokens > MAX_TOKENS_OF_NAMES || isUnreadable === true || isUpload === true
}
