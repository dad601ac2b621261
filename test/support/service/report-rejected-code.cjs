// Loaded into each thread of the program (`node --require`): says of each file whether V8 has taken the code that is stored for it.
'use strict'
const vm = require('node:vm')

vm.Script = class extends vm.Script {
  constructor(text, options) {
    super(text, options)
    process.stderr.write(`${this.cachedDataRejected === false ? 'taken' : 'rejected'} ${options.filename}\n`)
  }
}
