// Preloaded into every process that is measured: says what it has used so far.
process.on('message', ({ task }) => {
  if (task !== 'usage') return
  const { user, system } = process.cpuUsage()
  process.send({ cpuUs: user + system, residentBytes: process.memoryUsage.rss(), peakBytes: process.resourceUsage().maxRSS * 1024 })
})
