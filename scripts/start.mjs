// `npm start`: runs the service, with the example bundle unless another source is set.
const hasUrl = process.env.EDGE_CONFIG_URL || process.argv.some((arg) => /^--config-url(?:=|$)/.test(arg))
if (!hasUrl) process.env.EDGE_CONFIG_FILE ||= 'examples/quickstart.json'
process.argv.splice(2, 0, 'serve')
await import('../program/edge.js')
