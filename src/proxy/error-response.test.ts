import { expect, test } from 'vitest'
import { RecordingDownstream } from '../../test/support/proxy/recording-downstream.ts'
import { respondError } from './error-response.ts'

test('a message may have any characters', () => {
  const downstream = new RecordingDownstream()
  respondError(downstream, 'blocked', 'Zugang gesperrt – é 東 😀')
  expect(downstream.sent.join('')).toContain('Zugang gesperrt – é 東 😀')
})
