import type { FakeDialect } from './dialect.ts'
import { chat } from './dialects/chat.ts'
import { completions } from './dialects/completions.ts'
import { embeddings } from './dialects/embeddings.ts'
import { messages } from './dialects/messages.ts'
import { responses } from './dialects/responses.ts'

/** The dialects that respond to POST, by path. */
export const ENDPOINTS: ReadonlyMap<string, FakeDialect> = new Map([
  ['/v1/chat/completions', chat],
  ['/v1/completions', completions],
  ['/v1/embeddings', embeddings],
  ['/v1/messages', messages],
  ['/v1/responses', responses],
])
