import { expect, test } from 'vitest'
import { ScriptedSocket } from '../../../test/support/proxy/scripted-socket.ts'
import { ReadPause } from './unread-bytes.ts'
import type { WireContext } from './wire-context.ts'

const MEBIBYTE = 2 ** 20

/** As much of it as counts here. */
function newContext(noted: string[]): WireContext {
  const handlers = { noteMalformed: (detail: string) => void noted.push(detail) }
  return { heldBytes: 0, handlers } as unknown as WireContext
}

test('what all connections hold is bounded: the one is cut with which it would be more', () => {
  const noted: string[] = []
  const context = newContext(noted)
  const sockets = Array.from({ length: 17 }, () => new ScriptedSocket())
  for (const { socket } of sockets) new ReadPause(context, socket).begin(MEBIBYTE)
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([...Array<boolean>(16).fill(false), true])
  expect(noted).toEqual(['too many pipelined requests'])
})

test('what a connection no longer holds makes room for others', () => {
  const noted: string[] = []
  const context = newContext(noted)
  const socket = new ScriptedSocket()
  const pause = new ReadPause(context, socket.socket)
  for (let i = 0; i < 40; i++) {
    pause.begin(MEBIBYTE)
    // Of a pause that is on already, nothing more is counted.
    pause.begin(MEBIBYTE)
    expect([context.heldBytes, socket.isPaused()]).toEqual([MEBIBYTE, true])
    pause.end()
    pause.end()
    expect([context.heldBytes, socket.isPaused()]).toEqual([0, false])
  }
  expect(noted).toEqual([])
})

test('an upload that waits for its backend is never cut for what it holds', () => {
  const context = newContext([])
  context.heldBytes = 100 * MEBIBYTE
  const socket = new ScriptedSocket()
  new ReadPause(context, socket.socket).begin(0)
  expect([socket.isPaused(), socket.destroyed]).toEqual([true, false])
})
