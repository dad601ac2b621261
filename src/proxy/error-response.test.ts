import { describe, expect, test } from 'vitest'
import { RecordingDownstream } from '../../test/support/proxy/recording-downstream.ts'
import { respondError } from './error-response.ts'

test('a message may have any characters', () => {
  const downstream = new RecordingDownstream()
  respondError(downstream, 'blocked', 'Zugang gesperrt – é 東 😀')
  expect(downstream.sent.join('')).toContain('Zugang gesperrt – é 東 😀')
})

describe('the body of an error', () => {
  const error = { message: 'Access is blocked.', type: 'permission_error', code: 'blocked' }

  test.each(['/v1/messages', '/v1/messages/count_tokens?beta=true', '/anthropic/v1/messages?beta=true', 'http://edge/v1/messages'])(
    "is Anthropic's at %s",
    (target) => {
      expect(bodyAt(target)).toEqual({ type: 'error', error })
    },
  )

  test.each(['/v1/chat/completions', '/v1/messagesx', '/messages', '/search?q=/v1/messages', '*'])("is OpenAI's at %s", (target) => {
    expect(bodyAt(target)).toEqual({ error })
  })

  function bodyAt(target: string): unknown {
    const downstream = new RecordingDownstream({ method: 'POST', target })
    respondError(downstream, 'blocked', 'Access is blocked.')
    return JSON.parse(downstream.sent.at(-1)!.slice(1))
  }
})
