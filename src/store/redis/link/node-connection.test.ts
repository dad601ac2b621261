import { expect, test } from 'vitest'
import { errorText } from './node-connection.ts'
import { parseRedisAddress } from './redis-address.ts'

const ADDRESS = parseRedisAddress('redis+sentinel://u:s3cret@h/m?sentinel_password=t0p')

test('a server that repeats what it was sent does not bring a password into a log', () => {
  const error = new Error("ERR unknown command 'AUTH', with args beginning with: 's3cret' 't0p'")
  expect(errorText(error, ADDRESS)).toBe("ERR unknown command 'AUTH', with args beginning with: '…' '…'")
})

test('what a server without a word on passwords means is said', () => {
  expect(errorText(new Error('ERR Protocol error: unauthenticated multibulk length'), ADDRESS)).toBe('NOAUTH a password is needed')
})

test('a host with several addresses has an error for each', () => {
  const error = new AggregateError([new Error('connect ECONNREFUSED ::1:6379'), new Error('connect ECONNREFUSED 127.0.0.1:6379')])
  expect(errorText(error, ADDRESS)).toBe('connect ECONNREFUSED ::1:6379; connect ECONNREFUSED 127.0.0.1:6379')
})
