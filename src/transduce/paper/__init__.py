"""The paper's tables, figures and claims as programs: measured here, beside what was published."""
