import { promptTokens } from '../call.ts'
import { modelOf, wholeNumberIn } from '../completion.ts'
import type { FakeDialect } from '../dialect.ts'
import { openAiError } from './openai.ts'

const DEFAULT_DIMENSIONS = 8
const MAX_DIMENSIONS = 4096

/** OpenAI's POST /v1/embeddings. */
export const embeddings: FakeDialect = {
  whole(asked, { hasUsage }) {
    const { input, encoding_format } = asked
    const data = textsOf(input).map((text, index) => {
      const vector = embed(text, wholeNumberIn(asked['dimensions']))
      // OpenAI's own client asks for base64, which takes a quarter of the size.
      const embedding = encoding_format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : [...vector]
      return { object: 'embedding', index, embedding }
    })
    const tokens = promptTokens({ input })
    const usage = hasUsage && { usage: { prompt_tokens: tokens, total_tokens: tokens } }
    return { body: { object: 'list', data, model: modelOf(asked), ...usage }, tokens: 0 }
  },

  promptTokens: ({ input }) => promptTokens({ input }),
  errorBody: openAiError,
}

/** Accepts one text, several texts, one list of token numbers, or several of these. */
function textsOf(input: unknown): string[] {
  const isList = Array.isArray(input) && typeof input[0] !== 'number'
  return (isList ? input : [input ?? '']).map(String)
}

/** Returns a vector of length 1 that depends only on the text. */
export function embed(text: string, asked: number | undefined): Float32Array {
  const dimensions = Math.min(MAX_DIMENSIONS, asked || DEFAULT_DIMENSIONS)
  const vector = new Float32Array(dimensions).fill(1)
  for (let i = 0; i < text.length; i++) vector[i % dimensions]! += text.charCodeAt(i) % 61
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}
