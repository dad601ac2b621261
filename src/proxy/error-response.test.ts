import { describe, expect, test } from 'vitest'
import { RecordingDownstream } from '../../test/support/proxy/recording-downstream.ts'
import { proxyStatus, REASONS, type Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import { respondError } from './error-response.ts'

test('a message may have any characters', () => {
  const downstream = new RecordingDownstream()
  respondError(downstream, 'blocked', 'Zugang gesperrt – é 東 😀')
  expect(downstream.sent.join('')).toContain('Zugang gesperrt – é 東 😀')
})

describe('the body of an error', () => {
  const error = { message: 'Access is blocked.', type: 'permission_error', code: 'blocked' }

  test.each([
    '/v1/messages',
    '/v1/messages/count_tokens?beta=true',
    '/anthropic/v1/messages?beta=true',
    'http://edge/v1/messages',
    '/v1/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict',
  ])("is Anthropic's at %s", (target) => {
    expect(bodyAt(target)).toEqual({ type: 'error', error })
  })

  test.each([
    '/v1/chat/completions',
    '/v1/messagesx',
    '/messages',
    '/search?q=/v1/messages',
    '/search?q=/models/x:generateContent',
    '/models/x:other',
    '/v1/publishers/mistralai/models/m:rawPredict',
    'http://edge:80/v1/chat/completions',
    '*',
  ])("is OpenAI's at %s", (target) => {
    expect(bodyAt(target)).toEqual({ error })
  })

  test.each([
    '/v1beta/models/gemini:generateContent?key=k',
    '/v1beta/models/gemini%3AstreamGenerateContent?alt=sse',
    '/models/gemini%3agenerateContent',
    '/v1beta//models/x/../gemini:countTokens',
    '/v1beta/models/a%2Fb:generateContent',
    '/v1/projects/p/locations/l/endpoints/1:predict',
    'http://edge/v1beta/models/gemini:generateContent',
  ])("is Google's at %s", (target) => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'BLOCKED', domain: 'edge' }]
    expect(bodyAt(target)).toEqual({ error: { code: 403, message: 'Access is blocked.', status: 'PERMISSION_DENIED', details } })
  })

  test("says in Google's when to try again", () => {
    const { error: found } = bodyAt('/models/x:generateContent', 'tpm_exceeded', ['Retry-After', '7']) as { error: { details: object[] } }
    expect(found).toMatchObject({ code: 429, status: 'RESOURCE_EXHAUSTED' })
    expect(found.details[1]).toEqual({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '7s' })
  })

  test('has one of the statuses of Google for every reason that is an error', () => {
    for (const code of (Object.keys(REASONS) as Reason[]).filter((each) => proxyStatus(each) >= 400)) {
      expect(bodyAt('/models/x:generateContent', code)).toMatchObject({
        error: { code: proxyStatus(code), status: expect.stringMatching(/^[A-Z_]+$/) },
      })
    }
  })

  function bodyAt(target: string, code: Reason = 'blocked', fields: HeaderList = []): unknown {
    const downstream = new RecordingDownstream({ method: 'POST', target })
    respondError(downstream, code, 'Access is blocked.', fields)
    return JSON.parse(downstream.sent.at(-1)!.slice(1))
  }
})
