import type { FakeDialect } from '../dialect.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'

/** Azure's deployments of chat models. The path names the deployment. */
export const azureChat: FakeDialect = withFilterResults(chat)
/** Azure's deployments of older models. */
export const azureCompletions: FakeDialect = withFilterResults(completions)

const SAFE = { filtered: false, severity: 'safe' }
const FILTER_RESULTS = [{ prompt_index: 0, content_filter_results: { hate: SAFE, self_harm: SAFE, sexual: SAFE, violence: SAFE } }]
/** The first chunk of a stream has no choices, and the fields that later chunks repeat are empty. */
const FIRST_CHUNK = { choices: [], created: 0, id: '', model: '', object: '', prompt_filter_results: FILTER_RESULTS }

/** Adds what Azure's content filter says about the prompt. */
function withFilterResults({ whole, stream, promptTokens, errorBody }: FakeDialect): FakeDialect {
  return {
    whole(asked, options) {
      const { body, tokens } = whole(asked, options)
      return { body: { ...body, prompt_filter_results: FILTER_RESULTS }, tokens }
    },
    ...(stream && {
      stream: {
        *events(asked, options) {
          yield { data: FIRST_CHUNK, tokens: 0 }
          yield* stream.events(asked, options)
        },
        errorEvent: stream.errorEvent,
      },
    }),
    promptTokens,
    errorBody,
  }
}
