import { CREATED_SECONDS } from './dialect.ts'

/** The response to GET /v1/models. A request may name any model; this one is the default. */
export const MODELS = {
  object: 'list',
  data: [{ id: 'fake-llm', object: 'model', created: CREATED_SECONDS, owned_by: 'edge' }],
} as const
