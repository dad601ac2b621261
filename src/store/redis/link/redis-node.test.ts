import { expect, test } from 'vitest'
import { replyCode } from './redis-node.ts'

test.for([
  ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM'],
  ['ERR unknown command', 'ERR'],
  ['LOADING', 'LOADING'],
  ['what is this?', 'ERR'],
  ["READONLY You can't write against a read only replica. script: 4b, on @user_script:1.", 'READONLY'],
  [
    "ERR Error running script (call to f_4b): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
    'READONLY',
  ],
  ["ERR Error running script (call to f_4b): @user_script:1: attempt to index global 'x' (a nil value)", 'ERR'],
] as const)('%s: %s', ([message, code]) => {
  expect(replyCode(message)).toBe(code)
})
