import { describe, expect, test } from 'vitest'
import { judgeLlmRequest } from '../../test/support/llm/json-readers.ts'

describe('a body that cannot be read', () => {
  test('is too large: of more than two million values', () => {
    expect(judgeLlmRequest(`{"messages":[${'0,'.repeat(2_000_000)}0]}`)).toBe('body_too_large')
  })
})
