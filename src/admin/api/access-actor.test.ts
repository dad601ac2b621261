import { describe, expect, test } from 'vitest'
import { actorOf } from './access.ts'
import { ApiError } from './api-error.ts'

function actorBy(...values: string[]): string {
  return actorOf({ rawHeaders: values.flatMap((value) => ['X-Edge-Actor', Buffer.from(value).toString('latin1')]) })
}

describe('the actor of a request', () => {
  test('is the field, or unknown', () => {
    expect(actorBy('alice@example.com')).toBe('alice@example.com')
    expect(actorBy('Zoë 李')).toBe('Zoë 李')
    expect([actorBy(), actorBy(''), actorBy('  ')]).toEqual(['unknown', 'unknown', 'unknown'])
    expect(actorOf({ rawHeaders: ['x-EDGE-actor', 'Zo\xeb'] })).toBe('Zoë')
  })

  test('is never guessed from two fields', () => {
    expect(() => actorBy('alice', 'bob')).toThrow(ApiError)
  })

  test('has nothing that a log, a terminal or a page would not show as it is', () => {
    expect(actorBy('a\tb\u0007c\u001b[31md\u009be\u2028f\u202eg\u200bh')).toBe('a?b?c?[31md?e?f?g?h')
  })

  test('is at most 128 characters long, none of them half', () => {
    expect(actorBy('😀'.repeat(1000))).toBe('😀'.repeat(128))
    expect(actorBy('x'.repeat(1000))).toHaveLength(128)
  })
})
