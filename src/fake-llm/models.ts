import { CREATED_SECONDS } from './dialect.ts'

/** The answer to GET /v1/models. A request may name any model; this one stands in when it names none. */
export const MODELS = {
  object: 'list',
  data: [{ id: 'fake-llm', object: 'model', created: CREATED_SECONDS, owned_by: 'edge' }],
} as const
