use serde::Serialize;

/// The machine that a figure comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Model of the processor, "unknown" where the system does not tell.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub os: String,
    /// Release of the kernel, "unknown" where the system does not tell.
    pub kernel: String,
    /// Processes that ran or waited to, mean of the minute before; none where the system does not tell.
    pub load: Option<f64>,
}

impl Machine {
    /// The machine this runs on.
    pub fn here() -> Self {
        Self {
            cpu: std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text)).unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| release.trim().to_owned()),
            load: std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}

/// x86 names the model; Arm only numbers who made it and which part.
fn model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name").or_else(|| Some(format!("Arm {} {}", field("CPU implementer")?, field("CPU part")?)))
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::model;

    #[test]
    fn the_model_is_found_on_x86_and_on_arm() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Fast 1\nmodel name\t: Fast 2\n").unwrap(), "Fast 1");
        assert_eq!(model("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n").unwrap(), "Arm 0x41 0xd40");
        assert!(model("nothing here").is_none());
    }
}
