import { Duplex } from 'node:stream'
import { expect, test } from 'vitest'
import { Call } from './call.ts'
import { Pipeline } from './pipeline.ts'

test('calls that were not written before the stream ended are told apart, and nothing is written after its end', async () => {
  const { stream, pipeline, replies, written } = newPipeline()
  const [answered, sent, unsent] = [call('a'), call('b'), call('c')]
  pipeline.add(answered)
  pipeline.add(sent)
  pipeline.flush()
  stream.push('+1\r\n')
  await new Promise(setImmediate)
  pipeline.add(unsent)
  pipeline.addAsking()
  stream.end()
  pipeline.flush()
  expect(replies).toEqual([[answered, '1']])
  expect(pipeline.end()).toEqual({ sent: [sent], unsent: [unsent] })
  expect([stream.errored, written.join('')]).toEqual([null, '*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n'])
})

test('a reply to a call that is not written yet is one that nobody asked for', async () => {
  const { stream, pipeline, replies } = newPipeline()
  const early = call('a')
  pipeline.add(early)
  const error = new Promise<Error>((resolve) => stream.on('error', resolve))
  stream.push('+1\r\n')
  expect(await error).toMatchObject({ message: 'it sends replies that nobody asked for' })
  expect([replies, pipeline.end()]).toEqual([[], { sent: [], unsent: [early] }])
})

test('calls keep their order and their kind, however many were answered before', async () => {
  const { stream, pipeline, replies } = newPipeline()
  const calls = Array.from({ length: 5000 }, (_, i) => call(String(i)))
  for (const [i, each] of calls.entries()) {
    pipeline.add(each)
    if (i === 3999) pipeline.flush()
  }
  stream.push('+1\r\n'.repeat(3000))
  await new Promise(setImmediate)
  expect(replies.map(([answered]) => answered)).toEqual(calls.slice(0, 3000))
  expect(pipeline.end()).toEqual({ sent: calls.slice(3000, 4000), unsent: calls.slice(4000) })
})

function call(name: string): Call {
  return Call.ofCommand(name, [])
}

/** A pipeline on a stream that takes everything, and whose replies the test pushes. */
function newPipeline() {
  const written: string[] = []
  const stream = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk.toString())
      done()
    },
  })
  const replies: [Call, unknown][] = []
  const pipeline = new Pipeline(stream, (answered, reply) => replies.push([answered, reply]))
  return { stream, pipeline, replies, written }
}
