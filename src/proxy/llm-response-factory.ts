import type { ResponseHead } from './backend/response-head.ts'
import type { LlmResponse, LlmResponseParts, ResponseFlow } from './llm-response.ts'
import { StreamedResponse } from './streamed-response.ts'
import { WholeResponse } from './whole-response.ts'

/** How a response is read that costs tokens: event by event, or as a whole. */
export function newLlmResponse(head: ResponseHead, hasBody: boolean, parts: LlmResponseParts, flow: ResponseFlow): LlmResponse {
  return hasBody && head.isEventStream ? new StreamedResponse(head, parts, flow) : new WholeResponse(head, parts, flow)
}
