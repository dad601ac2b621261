// `npm run build` loads this into each thread of the program before everything else (scripts/code-cache.mjs): when it is told to, each thread writes
// the compiled code of the files that it has loaded, and then the program is stopped.
'use strict'
const { writeFileSync } = require('node:fs')
const { basename, join } = require('node:path')
const v8 = require('node:v8')
const vm = require('node:vm')
const { BroadcastChannel, isMainThread } = require('node:worker_threads')

const scripts = new Map()
vm.Script = class extends vm.Script {
  constructor(text, options) {
    super(text, options)
    scripts.set(basename(options.filename), this)
  }
}
// The program sets flags, and V8 would then take the code for that of a program started with them.
v8.setFlagsFromString = () => {}

const channel = new BroadcastChannel('code cache')
if (isMainThread) stopWhenWritten()
else channel.onmessage = ({ data }) => data === 'write' && write() && channel.postMessage('written')
channel.unref()

function stopWhenWritten() {
  channel.onmessage = ({ data }) => data === 'written' && process.kill(process.pid, 'SIGTERM')
  process.once('message', () => write() && channel.postMessage('write'))
}

function write() {
  for (const [name, script] of scripts) writeFileSync(join(process.env.CODE_CACHE_FOLDER, `${name}.code`), script.createCachedData())
  return true
}
