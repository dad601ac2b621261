import fc from 'fast-check'
import { expect } from 'vitest'
import { ExtAuthzRequest } from '../../../src/doors/grpc/ext-authz-request.ts'
import { MalformedMessage } from '../../../src/doors/grpc/protobuf-reader.ts'
import { bytesOf, checkMessages, checkObject, fieldOf } from './check-messages.ts'

export type Serialize = (message: object) => Uint8Array

/** Every message that a library writes is read as it was meant, one after the other by the same reader. */
export function expectSameReading(serialize: Serialize, numRuns: number): void {
  const reader = new ExtAuthzRequest()
  fc.assert(
    fc.property(checkMessages, (message) => {
      reader.read(serialize(checkObject(message)))
      const { method, path, host, source, context } = message
      const read = [reader.method, reader.uri, reader.host, reader.peer ?? '']
      expect(read).toEqual([bytesOf(method), bytesOf(path), bytesOf(host), bytesOf(source)])
      for (const name of ['a', 'x-key', 'accept', 'cookie', 'x-forwarded-for', 'authorization', 'absent'])
        expect(reader.header(name)).toBe(fieldOf(message, name))
      for (const [name, value] of Object.entries(context)) expect(reader.context(name)).toBe(value)
      expect(reader.context('absent, too')).toBe(undefined)
    }),
    { numRuns },
  )
}

/** A message that ends early, or whose bytes are damaged, is read or refused; nothing else happens. */
export function expectOnlyMalformed(serialize: Serialize, numRuns: number): void {
  const reader = new ExtAuthzRequest()
  fc.assert(
    fc.property(checkMessages, fc.nat(), fc.integer({ min: 1, max: 255 }), (message, at, change) => {
      const bytes = Buffer.from(serialize(checkObject(message)))
      for (let length = 0; length < bytes.length; length += 1 + Math.floor(bytes.length / 100))
        expect(isRead(reader, bytes.subarray(0, length))).toBe(length === 0)
      const damaged = at % bytes.length
      bytes[damaged] = bytes[damaged]! ^ change
      if (isRead(reader, bytes)) readAll(reader)
    }),
    { numRuns },
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      if (isRead(reader, bytes)) readAll(reader)
    }),
    { numRuns: numRuns * 10 },
  )
}

function readAll(reader: ExtAuthzRequest): void {
  reader.original()
  for (const name of ['a', 'cookie', 'x-forwarded-for', '']) reader.header(name)
  reader.context('')
}

function isRead(reader: ExtAuthzRequest, bytes: Uint8Array): boolean {
  try {
    reader.read(bytes)
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedMessage)
    return false
  }
}
