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

/** Shorter ids may be guessed: some servers number their responses up to a thousand. */
const ID = /^[\w.:-]{16,128}$/

/**
 * A request without a prompt and a bound that is not a GET is a lookup if its path ends in `/<id>` or `/<id>/<verb>`, and the response has that id. What is
 * generated has a new id, which no client can know when it writes its path.
 */
export function lookupOf({ method, target }: { readonly method: string; readonly target: string }, llm: LlmRequest): Lookup {
  if (method === 'GET' || method === 'HEAD') return asksForTokens(llm) ? NEVER : ALWAYS
  if (mayHavePrompt(llm) || llm.requestedTokens !== undefined || !isPlainPath(target)) return NEVER
  const [path] = target.split('?', 1)
  const lookedUpIds = path!
    .split('/')
    .slice(2)
    .slice(-2)
    .filter((segment) => ID.test(segment))
  return lookedUpIds.length === 0 ? NEVER : { isLookup: false, lookedUpIds }
}

function mayHavePrompt({ hasPrompt, promptTokens, isUnreadable, isUpload }: LlmRequest): boolean {
  return hasPrompt === true || promptTokens > MAX_TOKENS_OF_NAMES || isUnreadable === true || isUpload === true
}
