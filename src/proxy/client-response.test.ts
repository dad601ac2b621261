import { expect, onTestFinished, test, vi } from 'vitest'
import { RecordingDownstream } from '../../test/support/proxy/recording-downstream.ts'
import { parseHead } from './backend/response-head.ts'
import { ClientResponse } from './client-response.ts'
import { ProxiedRequest } from './proxied-request.ts'

/** As many as a read brings where each is a chunk of one byte. */
const PIECES = 10_000

test('pieces that came together leave together, and nothing is copied again for each of thousands', () => {
  const { response, downstream } = responding()
  let allocatedBytes = 0
  const { allocUnsafe } = Buffer
  const spy = vi.spyOn(Buffer, 'allocUnsafe').mockImplementation((size) => {
    allocatedBytes += size
    return allocUnsafe(size)
  })
  onTestFinished(() => void spy.mockRestore())
  for (let i = 0; i < PIECES; i++) response.add(Buffer.from(String(i % 10)))
  response.flush()
  expect(downstream.sent.slice(1)).toEqual([`+${'0123456789'.repeat(PIECES / 10)}`])
  expect(allocatedBytes).toBeLessThan(8 * PIECES)
})

test('what waits beyond its read does not change with the buffer of the read', () => {
  for (const pieces of [['abc'], ['abc', 'def'], ['abc', 'def', 'ghi']]) {
    const { response, downstream } = responding()
    const read = Buffer.from(pieces.join(''))
    for (let i = 0; i < pieces.length; i++) response.add(read.subarray(3 * i, 3 * i + 3))
    response.keep()
    read.fill('!')
    response.add(Buffer.from('z'))
    response.sendHead()
    response.end([])
    expect(downstream.sent).toEqual(['200', `.${pieces.join('')}z`])
  }
})

test('texts and bytes are joined in order, whichever come first', () => {
  for (const texts of [0b010, 0b101, 0b110, 0b011, 0b111]) {
    const { response, downstream } = responding()
    const read = Buffer.from('abcdefghi')
    for (let i = 0; i < 3; i++) {
      const bytes = read.subarray(3 * i, 3 * i + 3)
      response.add(texts & (1 << i) ? bytes.toString('latin1') : bytes)
    }
    response.keep()
    read.fill('!')
    response.add(Buffer.from('é').toString('latin1'))
    response.sendHead()
    response.end([])
    expect(downstream.sent).toEqual(['200', '.abcdefghié'])
  }
})

test('more than leaves in one write leaves in several, in order', () => {
  const { response, downstream } = responding()
  const pieces = ['a', 'b', 'c', 'd', 'e'].map((letter) => letter.repeat(6000))
  for (const piece of pieces) response.add(Buffer.from(piece))
  response.flush()
  expect(downstream.sent.slice(1).map((sent) => sent.slice(1))).toEqual([`${pieces[0]}${pieces[1]}`, `${pieces[2]}${pieces[3]}`, pieces[4]])
})

function responding(): { response: ClientResponse; downstream: RecordingDownstream } {
  const downstream = new RecordingDownstream()
  const response = new ClientResponse()
  response.open(downstream, ProxiedRequest.read(downstream.received, false) as ProxiedRequest)
  response.begin(parseHead('HTTP/1.1 200 OK\r\n'), undefined, '')
  return { response, downstream }
}
